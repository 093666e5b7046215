"""Estimate how long a session takes, from its protocol and from earlier runs on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.id_words import CaseId
from pytest_dlperf.core.verdict import Rule
from pytest_dlperf.judge.screen import looks
from pytest_dlperf.judge.stats import priors

#: Times above these many seconds are shown in minutes, and in hours.
_MINUTES_FROM: Final = 120
_HOURS_FROM: Final = 3 * 3600
#: A span of seconds: the least and the most.
Seconds = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """The runs of one case, or its pairs of runs."""

    fewest: int
    most: int
    #: Of one run, or one pair; None where none was ever measured here.
    seconds: float | None
    #: The same by other cases: an estimate for one that was never measured.
    about: Seconds | None = None
    #: After so many seconds a run is ended.
    timeout_s: float = 0.0
    #: Runs of this session so far.
    done: int = 0
    #: The cases that need it as their one-device parent; empty for one that was selected.
    parent_of: frozenset[str] = field(default_factory=frozenset)

    @property
    def selected(self) -> bool:
        """Whether the session selected it, or needs it as a one-device parent."""
        return not self.parent_of

    @property
    def span(self) -> Seconds | None:
        """The seconds of one run, or one pair, known or estimated; None if they are neither."""
        return self.about if self.seconds is None else (self.seconds, self.seconds)


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
        about: Callable[[Case], Seconds | None] = lambda _: None,
        pairs: bool = False,
    ) -> Forecast:
        """Return the forecast of ``cases`` and of the parents that they need.

        ``seconds_of`` is the time of one run where it is known, ``about`` what other cases let
        one expect.
        """
        parts: dict[str, Part] = {}
        factor = 2 if pairs else 1

        def part(case: Case, fewest: int, most: int, parent_of: frozenset[str]) -> Part:
            seconds, estimate = seconds_of(case), about(case)
            return Part(
                fewest=fewest,
                most=most,
                seconds=None if seconds is None else factor * seconds,
                about=None if estimate is None else (factor * estimate[0], factor * estimate[1]),
                timeout_s=case.protocol.timeout_s,
                parent_of=parent_of,
            )

        for case in cases:
            counts = looks(case.protocol, priors.of_throughput(case, rule_for(case)))
            parts[case.id] = part(case, counts[0], counts[-1], frozenset())
        for case in () if pairs else cases:
            parent = case.parent()
            if parent is None:
                continue
            own, most = parts[case.id], parent.protocol.runs
            known = parts.get(parent.id)
            if known is None:
                fewest, most = min(own.fewest, most), min(own.most, most)
                parts[parent.id] = part(parent, fewest, most, frozenset({case.id}))
            elif known.parent_of:
                parts[parent.id] = replace(known, parent_of=known.parent_of | {case.id})
        return cls(parts, pairs=pairs)

    @property
    def count(self) -> int:
        """How many cases the session selected."""
        return sum(part.selected for part in self._parts.values())

    def words(self) -> str:
        """Return ``2 cases, 3 to 10 runs each, 18 to 60 min``."""
        own = [part for part in self._parts.values() if part.selected]
        cases = f"{len(own)} {'case' if len(own) == 1 else 'cases'}"
        each = f"{self._runs(own)}{' each' if len(own) > 1 else ''}"
        return f"{cases}, {each}{self._time()}"

    def _runs(self, parts: Sequence[Part]) -> str:
        fewest, most = min(part.fewest for part in parts), max(part.most for part in parts)
        counts = f"{fewest} to {most}" if fewest < most else f"{most}"
        what = "pair" if self._pairs else "run"
        return f"{counts} {what}{'' if most == 1 else 's'}"

    def _time(self) -> str:
        parts = list(self._parts.values())
        known = [part for part in parts if part.span is not None]
        if not known:
            return self._unknown()
        words = _sum(known, [(part.fewest, part.most) for part in known])
        if any(part.seconds is None for part in known):
            words = f"about {words} by what other cases took here"
        if len(known) == len(parts):
            return f", {words}"
        return (
            f", {words} for {len(known)} of {len(parts)}, others not known before their first run"
        )

    def _unknown(self) -> str:
        """Say when it will be known: the timeout bounds that, and nothing else."""
        parents = [part for part in self._parts.values() if not part.selected]
        words = ""
        if parents:
            whose = "its" if self.count == 1 else f"{len(parents)}"
            several = "" if len(parents) == 1 else "s"
            of = [CaseId.parse(i).layout for i, part in self._parts.items() if not part.selected]
            kind = "one-device" if all(one.world_size == 1 for one in of) else "reference"
            words = f", and {self._runs(parents)} of {whose} {kind} parent{several}"
        timeout_s = max(part.timeout_s for part in self._parts.values())
        return (
            f"{words}; an estimate follows after the first run of each, which ends within "
            f"{span(timeout_s, timeout_s)} (--dlperf-timeout)"
        )

    def learn(self, case_id: str, seconds: float) -> bool:
        """Take how long a run of a case just took; return whether that was not known before.

        Of pairs, twice that is a pair's.
        """
        part = self._parts.get(case_id)
        if part is None:
            return False
        of_part = 2 * seconds if self._pairs else seconds
        self._parts[case_id] = replace(part, seconds=of_part, done=part.done + 1)
        return part.seconds is None

    def left(self) -> str:
        """Return how long the runs that are left may take; empty if none is.

        What is not known yet is taken to be like the cases of the same suite, else of the same
        framework, that are known by now.
        """
        left = {case_id: self._left(part) for case_id, part in self._parts.items()}
        left = {case_id: counts for case_id, counts in left.items() if counts[1] > 0}
        if not left:
            return ""
        parts = {case_id: self._with_estimate(case_id) for case_id in left}
        known = [case_id for case_id, part in parts.items() if part.span is not None]
        of_pair = 2 if self._pairs else 1
        fewest, most = (sum(of_pair * left[case_id][i] for case_id in known) for i in (0, 1))
        counts = f"{fewest:g} to {most:g}" if fewest < most else f"{most:g}"
        time = _sum([parts[case_id] for case_id in known], [left[case_id] for case_id in known])
        unknown = len(left) - len(known)
        cases = "case is" if unknown == 1 else "cases are"
        others = f"; {unknown} {cases} not known yet" if unknown else ""
        return f"about {time} for {counts} {'run' if most == 1 else 'runs'} left{others}"

    def _left(self, part: Part) -> tuple[float, float]:
        """Return the fewest and the most runs, or pairs, that a part still needs."""
        done = part.done / 2 if self._pairs else part.done
        return max(0, part.fewest - done), max(0, part.most - done)

    def _with_estimate(self, case_id: str) -> Part:
        part = self._parts[case_id]
        if part.span is not None:
            return part
        times = [(CaseId.parse(i), p.seconds) for i, p in self._parts.items() if p.seconds]
        return replace(part, about=alike(CaseId.parse(case_id), times))

    def ended(self, case_id: str) -> None:
        """Take out a case that has ended, one way or another, and the parent it alone needs."""
        self._parts.pop(case_id, None)
        for parent_id, part in list(self._parts.items()):
            if case_id in part.parent_of:
                rest = part.parent_of - {case_id}
                if rest:
                    self._parts[parent_id] = replace(part, parent_of=rest)
                else:
                    del self._parts[parent_id]

    def left_s(self, without: str) -> float | None:
        """Return the least seconds that all cases but ``without`` still take; None if unknown.

        A one-device parent counts with the runs that it may still need.
        """
        left = [part for case_id, part in self._parts.items() if case_id != without]
        if any(part.seconds is None for part in left):
            return None
        return sum(self._left(part)[0] * (part.seconds or 0.0) for part in left)


def alike(case: CaseId, times: Sequence[tuple[CaseId, float]]) -> Seconds | None:
    """Return the least and the most seconds of the known cases that are most like ``case``.

    Those of its suite and size, else all of its framework, on the same kind of device. None if
    there is none.
    """
    same = [
        (other, seconds)
        for other, seconds in times
        if (other.framework, other.layout.device) == (case.framework, case.layout.device)
    ]
    of_suite = [s for other, s in same if (other.suite, other.size) == (case.suite, case.size)]
    found = of_suite or [seconds for _, seconds in same]
    return (min(found), max(found)) if found else None


def _sum(parts: Sequence[Part], counts: Sequence[tuple[float, float]]) -> str:
    """Return the time of as many runs of each part, whose seconds are known or estimated."""
    low = high = 0.0
    for part, (fewest, most) in zip(parts, counts, strict=True):
        least, longest = part.span or (0.0, 0.0)
        low, high = low + fewest * least, high + most * longest
    return span(low, high)


def span(low_s: float, high_s: float) -> str:
    """Return a span of time as people say it: ``18 to 60 min``."""
    unit, seconds, digits = "s", 1.0, 0
    if high_s >= _HOURS_FROM:
        unit, seconds, digits = "h", 3600.0, 1
    elif high_s >= _MINUTES_FROM:
        unit, seconds = "min", 60.0
    low, high = (f"{max(value / seconds, 10**-digits):.{digits}f}" for value in (low_s, high_s))
    return f"{high} {unit}" if low == high else f"{low} to {high} {unit}"
