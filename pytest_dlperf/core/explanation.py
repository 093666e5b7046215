"""Why a case got slower: the parts of a step and its operators, before and after."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class PartChange:
    """A part of a step, such as the exposed communication. All times are milliseconds a step.

    The parts of a step are disjoint, and add up to the step.
    """

    part: str
    #: None without a profile of before.
    before_ms: float | None
    after_ms: float
    difference_ms: float | None
    #: Of the difference of the whole step; None where the profiles do not show the judged one.
    share: float | None
    #: Whether the difference is beyond the spread of equal profiles.
    named: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorChange:
    """An operator at one place of the model; milliseconds and calls of one step.

    Its time is its own, without the operators that it calls.
    """

    #: Path of the module that called it, and the phase: ``layer1.conv (backward)``.
    path: str
    operator: str
    part: str
    #: None without a profile of before.
    before_calls: float | None
    after_calls: float
    before_ms: float | None
    after_ms: float
    difference_ms: float | None
    named: bool

    @property
    def is_added(self) -> bool:
        """Whether it was not called before."""
        return self.before_calls == 0 and self.after_calls > 0

    @property
    def is_removed(self) -> bool:
        """Whether it is no longer called."""
        return self.after_calls == 0 and bool(self.before_calls)


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """What the profiles of a case show of the change of its speed.

    ``sentence`` sums it up; where nothing could be profiled it is empty, and ``note`` says why.
    """

    sentence: str = ""
    note: str = ""
    #: The rank that the others wait for: the tables are of its steps.
    rank: int | None = None
    #: A step, in milliseconds; those of the profiles, which are longer than measured ones.
    before_ms: float | None = None
    after_ms: float | None = None
    #: Whether the profiles show the judged change; None where there is nothing to compare.
    agrees: bool | None = None
    parts: tuple[PartChange, ...] = ()
    #: Added and removed ones first, then those with the largest differences.
    operators: tuple[OperatorChange, ...] = ()
    #: Files for a viewer of traces.
    traces: tuple[str, ...] = ()
