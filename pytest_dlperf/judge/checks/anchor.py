"""The stored levels against the anchor: slowdowns too small for any one session add up."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_dlperf.core.finding import Finding, Weight
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.judge.evidence import Evidence
from pytest_dlperf.judge.figures import is_worse, metric_finding, rate_is


def check(evidence: Evidence) -> Iterator[Finding]:
    """Yield that the stored levels left the anchor, unless the case is faster now."""
    if is_worse(evidence, "anchor") and not rate_is(evidence, Verdict.IMPROVED):
        yield metric_finding(evidence, "anchor", "worse", Weight.RED)
