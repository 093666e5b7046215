"""The verdict by findings: the table of ``docs/verdicts.md`` as code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pytest_dlperf.core.finding import REFUSING, Finding, Weight, strongest
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
#: Code of the finding that the time for further runs was spent.
BUDGET_SPENT: Final = "budget-spent"
#: Figure of a finding about two stages: the stage whose findings count.
DECIDED_BY: Final = "decided_by"


def decide(findings: Sequence[Finding]) -> Verdict:
    """Return the verdict of the strongest finding that counts; ``inconclusive`` for none."""
    weight = strongest(counting(findings))
    return TABLE.get(weight or Weight.NOTE, Verdict.INCONCLUSIVE)


def counting(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings that count, with the weight that they have.

    Of two stages those of the one that decides. What fresh runs were to confirm is open where
    there was no time for them; a count needs one run only.
    """
    stages = {finding.text(DECIDED_BY) for finding in findings if DECIDED_BY in finding.figures}
    own = [finding for finding in findings if not finding.stage or finding.stage in stages]
    if not any(
        finding.code == BUDGET_SPENT and finding.figures.get("unconfirmed") for finding in own
    ):
        return tuple(own)
    return tuple(_unconfirmed(finding) for finding in own)


def _unconfirmed(finding: Finding) -> Finding:
    if finding.weight not in {Weight.RED, Weight.FACT} or finding.figures.get("is_count"):
        return finding
    return replace(finding, weight=Weight.OPEN)


def refusal(findings: Iterable[Finding]) -> Finding | None:
    """Return the finding that forbids to judge, the strongest first; None if none does."""
    refusing = [finding for finding in findings if finding.weight in REFUSING]
    weight = strongest(refusing)
    return next((finding for finding in refusing if finding.weight is weight), None)
