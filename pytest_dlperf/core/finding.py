"""Findings: what a check says of a case, as a code with figures; verdicts and sentences follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final


class Weight(str, Enum):
    """What a finding does to the verdict: the first of these that any finding has decides it."""

    #: It was asked for and could not be measured, or trains something else.
    ERROR = "error"
    #: It was not measured, for a reason that is no fault.
    NOT_RUN = "not-run"
    #: The numbers are of other work, or under other conditions: nothing can be compared.
    DIFFERENT = "different"
    #: Certainly worse, whatever the machine did.
    FACT = "fact"
    #: The machine did it, or may have.
    MACHINE = "machine"
    #: The runs cannot be trusted.
    DOUBT = "doubt"
    #: It was stored, as there was nothing to compare with.
    STORED = "stored"
    #: There is nothing to compare with.
    UNSTORED = "unstored"
    RED = "red"
    OPEN = "open"
    #: Certainly better.
    BETTER = "better"
    GREEN = "green"
    #: Said, and counts for nothing.
    NOTE = "note"

    def __str__(self) -> str:
        return self.value


#: What forbids to judge a change: it is shown, and counts for nothing.
REFUSING: Final = (
    Weight.ERROR,
    Weight.NOT_RUN,
    Weight.DIFFERENT,
    Weight.MACHINE,
    Weight.DOUBT,
    Weight.UNSTORED,
)

FigureValue = str | int | float | bool
#: The metric whose findings need no name of it.
_RATE: Final = "throughput"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that a check found, or that was learnt after the judge."""

    #: As ``docs/reference/problems.md`` has it.
    code: str
    weight: Weight
    #: The metric that it is about; empty for the case as a whole.
    metric: str = ""
    #: The stage of the verdict that it is of: ``stored``, ``pairs``, ``packages``; empty where
    #: there is one stage, and for what counts beside all of them.
    stage: str = ""
    #: Shares are of 1; what is not known is absent.
    figures: Mapping[str, FigureValue] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The code, with its metric unless that is the throughput: ``worse:peak_memory``."""
        return self.code if self.metric in {"", _RATE} else f"{self.code}:{self.metric}"

    def text(self, name: str) -> str:
        """Return a figure that is a text; empty where it is absent."""
        value = self.figures.get(name, "")
        return value if isinstance(value, str) else str(value)

    def number(self, name: str) -> float:
        """Return a figure that is a number; 0 where it is absent."""
        value = self.figures.get(name, 0.0)
        return 0.0 if isinstance(value, str) else float(value) or 0.0  # never -0


def known_figures(figures: Mapping[str, FigureValue | None]) -> dict[str, FigureValue]:
    """Return the figures that are known, without empty texts."""
    return {name: value for name, value in figures.items() if value is not None and value != ""}


def strongest(findings: Iterable[Finding]) -> Weight | None:
    """Return the first weight, in the order of ``Weight``, that a finding has; None for none."""
    weights = {finding.weight for finding in findings}
    return next((weight for weight in Weight if weight in weights), None)


def findings_in_stage(findings: Iterable[Finding], stage: str) -> tuple[Finding, ...]:
    """Return findings as those of a stage, unless they are of one already."""
    return tuple(replace(finding, stage=finding.stage or stage) for finding in findings)


#: Code of the finding that the time for further runs was spent.
BUDGET_SPENT: Final = "budget-spent"
#: Figure of a finding about two stages: the stage whose findings count.
DECIDED_BY: Final = "decided_by"


def counting(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings that count, with the weight that they have.

    Of two stages those of the one that decides. What fresh runs were to confirm is open where
    there was no time for them; a count needs one run only.
    """
    stages = {finding.text(DECIDED_BY) for finding in findings if DECIDED_BY in finding.figures}
    own = [finding for finding in findings if not finding.stage or finding.stage in stages]
    if not any(_is_unconfirmed_by(finding) for finding in own):
        return tuple(own)
    return tuple(_unconfirmed(finding) for finding in own)


def _is_unconfirmed_by(finding: Finding) -> bool:
    return finding.code == BUDGET_SPENT and bool(finding.figures.get("unconfirmed"))


def _unconfirmed(finding: Finding) -> Finding:
    if finding.weight not in {Weight.RED, Weight.FACT} or finding.figures.get("is_count"):
        return finding
    return replace(finding, weight=Weight.OPEN)


def findings_by_weight(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings that count, the one that decided the verdict first, notes last.

    Of several that weigh the same the first one decided, but what the budget left open it left
    open.
    """
    order = list(Weight)

    def key(finding: Finding) -> tuple[int, bool]:
        return order.index(finding.weight), finding.code != BUDGET_SPENT

    return tuple(sorted(counting(findings), key=key))


def deciding(findings: Sequence[Finding]) -> Finding | None:
    """Return the finding that decided the verdict; None where there are notes alone, or none."""
    first = next(iter(findings_by_weight(findings)), None)
    return None if first is None or first.weight is Weight.NOTE else first
