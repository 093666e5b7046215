"""The metrics that the marker of a case gates."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_dlperf.core.finding import FigureValue, Finding, Weight
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.judge.evidence import Evidence
from pytest_dlperf.judge.figures import metric_finding


def check(evidence: Evidence) -> Iterator[Finding]:
    """Yield which metrics of the marker got worse, are open, or could not be judged.

    Counts and bytes count although the machine moved or steps drift.
    """
    for name, metric in evidence.metrics.items():
        compared = evidence.comparisons.get(name)
        if not metric.is_gate or compared is None:
            continue
        figures: dict[str, FigureValue | None] = {
            "unit": metric.unit,
            "is_count": metric.is_count or None,
        }
        if compared.verdict is Verdict.REGRESSED:
            weight = Weight.FACT if metric.is_fixed else Weight.RED
            yield metric_finding(evidence, name, "worse", weight, **figures)
        elif compared.verdict is Verdict.INCONCLUSIVE:
            yield metric_finding(evidence, name, "open", Weight.OPEN, **figures)
    if evidence.rate is not None:
        for name, side in evidence.lacking.items():
            lacks: dict[str, FigureValue] = {"lacks": side, "kind": evidence.kind.value}
            yield Finding(code="not-judged", weight=Weight.NOTE, metric=name, figures=lacks)
