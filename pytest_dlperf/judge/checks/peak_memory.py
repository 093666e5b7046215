"""The peak memory: no machine, and no drifting step, makes it larger."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_dlperf.core.finding import Finding, Weight
from pytest_dlperf.judge.evidence import Evidence
from pytest_dlperf.judge.figures import is_worse, metric_finding


def check(evidence: Evidence) -> Iterator[Finding]:
    """Yield that the peak memory grew."""
    if is_worse(evidence, "peak_memory"):
        yield metric_finding(evidence, "peak_memory", "worse", Weight.FACT)
