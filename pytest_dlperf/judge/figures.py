"""The figures of a finding about one metric, from its comparison."""

from __future__ import annotations

from pytest_dlperf.core.finding import FigureValue, Finding, Weight, known_figures
from pytest_dlperf.core.verdict import Comparison, Verdict
from pytest_dlperf.judge.evidence import Evidence


def comparison_figures(
    comparison: Comparison, **further: FigureValue | None
) -> dict[str, FigureValue]:
    """Return what is known of a comparison, and ``others``; shares are of 1."""
    low, high = comparison.interval or (None, None)
    return known_figures(
        {
            "change": comparison.change,
            "low": low,
            "high": high,
            "before": comparison.before,
            "now": comparison.now,
            "tolerance": comparison.tolerance,
            "sees": comparison.sees,
            "runs_needed": comparison.runs_needed,
            **further,
        }
    )


def metric_finding(
    evidence: Evidence, name: str, code: str, weight: Weight, **others: FigureValue | None
) -> Finding:
    """Return a finding about a metric that both sides have, with its figures and ``others``."""
    figures = comparison_figures(evidence.comparisons[name], kind=evidence.kind.value, **others)
    return Finding(code=code, weight=weight, metric=name, figures=figures)


def is_worse(evidence: Evidence, name: str) -> bool:
    """Return whether a metric got certainly worse."""
    compared = evidence.comparisons.get(name)
    return compared is not None and compared.verdict is Verdict.REGRESSED


def rate_is(evidence: Evidence, *verdicts: Verdict) -> bool:
    """Return whether the throughput has one of these verdicts."""
    return evidence.rate is not None and evidence.rate.verdict in verdicts
