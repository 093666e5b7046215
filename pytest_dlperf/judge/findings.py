"""All that the checks find of a case: what forbids to judge hides what rests on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from pytest_dlperf.core.finding import REFUSING, Finding, Weight
from pytest_dlperf.judge.checks import (
    anchor,
    conditions,
    cpu_seconds,
    gated,
    level,
    loss,
    machine,
    peak_memory,
    speedup,
    steady,
    throughput,
    window,
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
    window.check,
    cpu_seconds.check,
    anchor.check,
    peak_memory.check,
    speedup.check,
    gated.check,
)


def findings_in(evidence: Evidence) -> tuple[Finding, ...]:
    """Return what the checks find, in their order.

    Where the rate is not judged, only what forbids it, and facts that stand all the same.
    """
    first = tuple(_found_by(FIRST, evidence))
    if first:
        return first
    findings = (*_found_by(CHECKS, evidence), *evidence.notes)
    if not any(finding.weight in REFUSING for finding in findings):
        return findings
    return tuple(
        finding
        for finding in findings
        if finding.weight in REFUSING
        or finding.weight is Weight.FACT
        or finding.code == "links-slower"
    )


def _found_by(checks: Iterable[Check], evidence: Evidence) -> Iterator[Finding]:
    for check in checks:
        yield from check(evidence)
