"""Whether there is a level to compare with."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_dlperf.core.finding import Finding, Weight
from pytest_dlperf.judge.evidence import Evidence


def check(evidence: Evidence) -> Iterator[Finding]:
    """Yield that nothing is stored."""
    if not evidence.has_level:
        figures = {"kind": evidence.kind.value}
        yield Finding(code="nothing-stored", weight=Weight.UNSTORED, figures=figures)
