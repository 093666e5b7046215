"""The verdict by findings: the table of ``docs/verdicts.md`` as code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pytest_dlperf.core.finding import REFUSING, Finding, Weight, counting, strongest
from pytest_dlperf.core.verdict import Verdict

#: The verdict of the strongest finding.
TABLE: Final[Mapping[Weight, Verdict]] = {
    Weight.ERROR: Verdict.ERROR,
    Weight.NOT_RUN: Verdict.NOT_RUN,
    Weight.DIFFERENT: Verdict.INCOMPARABLE,
    Weight.FACT: Verdict.REGRESSED,
    Weight.MACHINE: Verdict.INCOMPARABLE,
    Weight.DOUBT: Verdict.UNSTEADY,
    Weight.STORED: Verdict.PASSED,
    Weight.UNSTORED: Verdict.NO_BASELINE,
    Weight.RED: Verdict.REGRESSED,
    Weight.OPEN: Verdict.INCONCLUSIVE,
    Weight.BETTER: Verdict.IMPROVED,
    Weight.GREEN: Verdict.PASSED,
}


def decide(findings: Sequence[Finding]) -> Verdict:
    """Return the verdict of the strongest finding that counts; ``inconclusive`` for none."""
    weight = strongest(counting(findings))
    return TABLE.get(weight or Weight.NOTE, Verdict.INCONCLUSIVE)


def refusal(findings: Iterable[Finding]) -> Finding | None:
    """Return the finding that forbids to judge, the strongest first; None if none does."""
    refusing = [finding for finding in findings if finding.weight in REFUSING]
    weight = strongest(refusing)
    return next((finding for finding in refusing if finding.weight is weight), None)
