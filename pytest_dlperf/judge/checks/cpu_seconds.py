"""CPU seconds of an iteration: more of them for a faster training are a trade-off."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_dlperf.core.finding import Finding, Weight
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.judge.evidence import Evidence
from pytest_dlperf.judge.figures import is_worse, metric_finding, rate_is

_NAME = "cpu_seconds"


def check(evidence: Evidence) -> Iterator[Finding]:
    """Yield that an iteration takes more CPU time."""
    if is_worse(evidence, _NAME) and rate_is(evidence, Verdict.IMPROVED):
        yield metric_finding(evidence, _NAME, "excused", Weight.NOTE)
    elif is_worse(evidence, _NAME):
        yield metric_finding(evidence, _NAME, "worse", Weight.RED)
