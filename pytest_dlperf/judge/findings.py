"""All that the checks find of a case: what forbids to judge hides what rests on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from pytest_dlperf.core.finding import REFUSING, Finding, Weight
from pytest_dlperf.judge.checks import (
    conditions,
    every_case,
    gated,
    level,
    loss,
    machine,
    speedup,
    steady,
    throughput,
)
from pytest_dlperf.judge.evidence import Evidence

Check = Callable[[Evidence], Iterable[Finding]]
#: Whether there is anything to compare; where not, no other check is asked.
FIRST: Final[tuple[Check, ...]] = (loss.check, conditions.check)
#: In the order of their clauses in a sentence.
CHECKS: Final[tuple[Check, ...]] = (
    machine.check,
    steady.check,
    level.check,
    throughput.check,
    every_case.check,
    speedup.check,
    gated.check,
)


def findings_in(evidence: Evidence) -> tuple[Finding, ...]:
    """Return what the checks find, in their order.

    Where the rate is not judged, only what forbids it, and facts that stand all the same.
    """
    first = tuple(finding for check in FIRST for finding in check(evidence))
    if first:
        return first
    findings = (*(finding for check in CHECKS for finding in check(evidence)), *evidence.notes)
    if not any(finding.weight in REFUSING for finding in findings):
        return findings
    return tuple(
        finding
        for finding in findings
        if finding.weight in REFUSING
        or finding.weight is Weight.FACT
        or finding.code == "links-slower"
    )
