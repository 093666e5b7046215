"""Work over the whole window: iterations that stall do not move the median one."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_dlperf.core.finding import FigureValue, Finding, Weight
from pytest_dlperf.core.verdict import GOOD, Verdict
from pytest_dlperf.judge.evidence import Evidence
from pytest_dlperf.judge.figures import is_worse, metric_finding, rate_is

_NAME = "whole_window"


def check(evidence: Evidence) -> Iterator[Finding]:
    """Yield that work over the whole window fell, or that it is open while the median is not."""
    compared = evidence.comparisons.get(_NAME)
    if is_worse(evidence, _NAME):
        yield metric_finding(evidence, _NAME, "worse", Weight.RED)
    elif compared is None or compared.verdict is not Verdict.INCONCLUSIVE:
        return
    elif rate_is(evidence, *GOOD):
        yield metric_finding(evidence, _NAME, "open", Weight.OPEN, **_to_decide(evidence))


def _to_decide(evidence: Evidence) -> dict[str, FigureValue | None]:
    """Return what would decide what is open: as many pairs as throughput and window need."""
    needed = None if evidence.rate is None else evidence.rate.runs_needed
    known = {name: evidence.figures[name] for name in ("runs", "run_s", "adaptive")}
    return {"runs_needed": needed, **known}
