"""The built-in metrics, from the table that the package has of them."""

from __future__ import annotations

from dlperf_reference.markdown import code, table
from pytest_dlperf.core.metrics import METRICS, Metric


def text() -> str:
    """Return the table of the metrics that a marker may name, by name."""
    rows = (
        (code(name), metric.words, _unit(metric), metric.better, metric.needs)
        for name, metric in sorted(METRICS.items())
    )
    return table(("metric", "what it is", "unit", "better", "needs"), rows)


def _unit(metric: Metric) -> str:
    return "a count" if metric.is_count else metric.unit
