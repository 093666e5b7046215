"""How long a session may take: from its protocol, and from what its cases took here before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pytest_dlperf.judge import priors
from pytest_dlperf.judge.screen import looks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_dlperf.core.case import Case
    from pytest_dlperf.core.verdict import Rule

#: From so many seconds on, time is told in minutes; from so many, in hours.
_MINUTES_FROM: Final = 120
_HOURS_FROM: Final = 3 * 3600


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """The runs of one case, or its pairs of runs."""

    fewest: int
    most: int
    #: Of one run, or one pair; None where none was ever measured here.
    seconds: float | None
    #: Whether the session selected it, or needs it as a one-device parent.
    selected: bool = True


class Forecast:
    """What is to be measured, by case id; what is not known stays unknown."""

    def __init__(self, parts: Mapping[str, Part], *, pairs: bool = False) -> None:
        self._parts = dict(parts)
        self._pairs = pairs

    @classmethod
    def of(
        cls,
        cases: Sequence[Case],
        rule_for: Callable[[Case], Rule],
        seconds_of: Callable[[Case], float | None],
        *,
        pairs: bool = False,
    ) -> Forecast:
        """Return the forecast of ``cases`` and of the parents that they need.

        ``seconds_of`` is the time of one run where it is known.
        """
        parts: dict[str, Part] = {}
        for case in cases:
            counts = looks(case.protocol, priors.of_throughput(case, rule_for(case)))
            seconds = seconds_of(case)
            if pairs and seconds is not None:
                seconds *= 2
            parts[case.id] = Part(fewest=counts[0], most=counts[-1], seconds=seconds)
        for case in () if pairs else cases:
            parent = case.parent()
            if parent is not None and parent.id not in parts:
                own, most = parts[case.id], parent.protocol.runs
                parts[parent.id] = Part(
                    fewest=min(own.fewest, most),
                    most=min(own.most, most),
                    seconds=seconds_of(parent),
                    selected=False,
                )
        return cls(parts, pairs=pairs)

    @property
    def count(self) -> int:
        """How many cases the session selected."""
        return sum(part.selected for part in self._parts.values())

    def words(self) -> str:
        """Return ``2 cases, 3 to 10 runs each, 18 to 60 min``."""
        own = [part for part in self._parts.values() if part.selected]
        fewest, most = min(part.fewest for part in own), max(part.most for part in own)
        what = "pair" if self._pairs else "run"
        counts = f"{fewest} to {most}" if fewest < most else f"{most}"
        cases = f"{len(own)} {'case' if len(own) == 1 else 'cases'}"
        each = f"{counts} {what}{'' if most == 1 else 's'}" + (" each" if len(own) > 1 else "")
        return f"{cases}, {each}, {self._time()}"

    def _time(self) -> str:
        known = [part for part in self._parts.values() if part.seconds is not None]
        unknown = len(self._parts) - len(known)
        if not known:
            return "time unknown: nothing of it was measured here before"
        low = sum(part.fewest * (part.seconds or 0.0) for part in known)
        high = sum(part.most * (part.seconds or 0.0) for part in known)
        if not unknown:
            return span(low, high)
        return f"{span(low, high)} for {len(known)} of {len(self._parts)}, others unknown"

    def learn(self, case_id: str, seconds: float) -> None:
        """Take how long a run of a case just took; of pairs, twice that is a pair's."""
        part = self._parts.get(case_id)
        if part is not None:
            of_part = 2 * seconds if self._pairs else seconds
            self._parts[case_id] = replace(part, seconds=of_part)

    def ended(self, case_id: str) -> None:
        """Take out a case that has ended, one way or another."""
        self._parts.pop(case_id, None)

    def left_s(self, without: str) -> float | None:
        """Return the least seconds that all cases but ``without`` still take; None if unknown.

        A one-device parent counts as the runs of its own that it may still need.
        """
        left = [part for case_id, part in self._parts.items() if case_id != without]
        if any(part.seconds is None for part in left):
            return None
        return sum(part.fewest * (part.seconds or 0.0) for part in left)


def span(low_s: float, high_s: float) -> str:
    """Return a span of time as people say it: ``18 to 60 min``."""
    unit, seconds, digits = "s", 1.0, 0
    if high_s >= _HOURS_FROM:
        unit, seconds, digits = "h", 3600.0, 1
    elif high_s >= _MINUTES_FROM:
        unit, seconds = "min", 60.0
    low, high = (f"{max(value / seconds, 10**-digits):.{digits}f}" for value in (low_s, high_s))
    return f"{high} {unit}" if low == high else f"{low} to {high} {unit}"
