"""Estimate how long a session takes, from its protocol and from earlier runs on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.id_words import CaseId
from pytest_dlperf.flow.lock_step import WINDOW_S
from pytest_dlperf.judge.screen import looks
from pytest_dlperf.report.figures import span

#: A span of seconds: the least and the most.
Seconds = tuple[float, float]


class Time(NamedTuple):
    """How long a run takes."""

    #: Seconds of the case's own runs; None where none was ever measured here.
    seconds: float | None
    #: The least and the most by other cases: an estimate for one that was never measured.
    about: Seconds | None = None


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
    #: Launches of one: 2 of a pair.
    launches: int = 1
    #: The cases that need it as their one-device parent; empty for one that was selected.
    parent_of: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(cls, case: Case, counts: Sequence[int], time: Time, *, launches: int) -> Part:
        """Return the runs of ``case``, or its pairs of two launches; the least and the most."""
        about = time.about
        return cls(
            fewest=counts[0],
            most=counts[-1],
            seconds=None if time.seconds is None else launches * time.seconds,
            about=None if about is None else (launches * about[0], launches * about[1]),
            timeout_s=case.protocol.timeout_s,
            launches=launches,
        )

    @property
    def selected(self) -> bool:
        """Whether the session selected it, or needs it as a one-device parent."""
        return not self.parent_of

    @property
    def span(self) -> Seconds | None:
        """The seconds of one run, or one pair, known or estimated; None if they are neither."""
        return self.about if self.seconds is None else (self.seconds, self.seconds)

    @property
    def left(self) -> tuple[float, float]:
        """The fewest and the most runs, or pairs, that are still needed."""
        done = self.done / self.launches
        return max(0, self.fewest - done), max(0, self.most - done)

    def learn(self, seconds: float) -> Part:
        """Return it with one more run, which took so long."""
        return replace(self, seconds=self.launches * seconds, done=self.done + 1)


class Forecast:
    """What is to be measured, by case id; what is not known stays unknown."""

    def __init__(self, parts: Mapping[str, Part], pairs: Mapping[str, Part] | None = None) -> None:
        self._parts = dict(parts)
        #: The pairs that follow where stored sessions do not decide.
        self._pairs = dict(pairs or {})

    @classmethod
    def of(
        cls,
        cases: Sequence[Case],
        time_of: Callable[[Case, int], Time],
        *,
        pairs: bool = False,
        may_need_pairs: Callable[[Case], bool] = lambda _: False,
    ) -> Forecast:
        """Return the forecast of ``cases`` and of the parents that they need.

        ``time_of`` a case and 1 is the time of a run, and with 2 that of one in a pair;
        ``pairs``: all are pairs of runs; ``may_need_pairs``: whether pairs may follow the runs.
        """
        parts: dict[str, Part] = {}
        follow: dict[str, Part] = {}
        for case in cases:
            launches, protocol = 2 if pairs else 1, case.protocol
            if not pairs and may_need_pairs(case):
                follow[case.id] = Part.of(case, looks(protocol), time_of(case, 2), launches=2)
                protocol = protocol.screening
            counts = looks(protocol)
            parts[case.id] = Part.of(case, counts, time_of(case, launches), launches=launches)
        for case in () if pairs else cases:
            parent = case.parent()
            if parent is None:
                continue
            own, most = parts[case.id], parent.protocol.runs
            runs = parts.get(parent.id)
            if runs is None:
                counts = min(own.fewest, most), min(own.most, most)
                part = Part.of(parent, counts, time_of(parent, 1), launches=1)
                parts[parent.id] = replace(part, parent_of=frozenset({case.id}))
            elif runs.parent_of:
                parts[parent.id] = replace(runs, parent_of=runs.parent_of | {case.id})
        return cls(parts, follow)

    @property
    def count(self) -> int:
        """How many cases the session selected."""
        return sum(part.selected for part in self._parts.values())

    def words(self) -> str:
        """Return ``2 cases, 3 to 10 runs each, 18 to 60 min``."""
        own = [part for part in self._parts.values() if part.selected]
        cases = f"{len(own)} {'case' if len(own) == 1 else 'cases'}"
        each = f"{_runs(own)}{' each' if len(own) > 1 else ''}"
        if most := max((pairs.most for pairs in self._pairs.values()), default=0):
            what = "pair" if most == 1 else "pairs"
            each += f" and up to {most} {what} where stored sessions do not decide"
        return f"{cases}, {each}{self._time()}"

    def _time(self) -> str:
        parts = list(self._parts.values())
        timed = {case_id: p for case_id, p in self._parts.items() if p.span is not None}
        if not timed:
            return self._unknown()
        counts: list[tuple[float, float]] = [(part.fewest, part.most) for part in timed.values()]
        pairs = [self._with_estimate(i, p) for i, p in self._pairs.items() if i in timed]
        words = _sum([*timed.values(), *pairs], [*counts, *((0, pair.most) for pair in pairs)])
        if any(part.seconds is None for part in timed.values()):
            words = f"about {words} by what other cases took here"
        if len(timed) == len(parts):
            return f", {words}"
        return (
            f", {words} for {len(timed)} of {len(parts)}, others not known before their first run"
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
            words = f", and {_runs(parents)} of {whose} {kind} parent{several}"
        timeout_s = max(part.timeout_s for part in self._parts.values())
        return (
            f"{words}; an estimate follows after the first run of each, which ends within "
            f"{span(timeout_s, timeout_s)} (--dlperf-timeout)"
        )

    def confirms(self, case_id: str) -> None:
        """Take that stored sessions left a case open, so that pairs of it follow its runs."""
        pairs = self._pairs.pop(case_id, None)
        if pairs is not None:
            self._parts[case_id] = self._with_estimate(case_id, pairs)

    def learn(self, case_id: str, seconds: float) -> bool:
        """Take how long a run of a case just took; return whether that was not known before.

        Of pairs, twice that is a pair's.
        """
        part = self._parts.get(case_id)
        if part is None:
            return False
        self._parts[case_id] = part.learn(seconds)
        return part.seconds is None

    def left(self) -> str:
        """Return how long the runs that are left may take; empty if none is.

        What is not known yet is taken to be like the cases of the same suite, else of the same
        framework, that are known by now. Pairs that may follow are in the most of both.
        """
        left = [
            (self._with_estimate(i, part), part.left)
            for i, part in self._parts.items()
            if part.left[1] > 0
        ]
        follow = [(self._with_estimate(i, p), (0.0, p.left[1])) for i, p in self._pairs.items()]
        if not left and not follow:
            return ""
        timed = [(part, counts) for part, counts in [*left, *follow] if part.span is not None]
        fewest, most = (sum(part.launches * counts[i] for part, counts in timed) for i in (0, 1))
        counts = f"{fewest:g} to {most:g}" if fewest < most else f"{most:g}"
        time = _sum([part for part, _ in timed], [counts for _, counts in timed])
        unknown = sum(part.span is None for part, _ in left)
        cases = "case is" if unknown == 1 else "cases are"
        rest = f"; {unknown} {cases} not known yet" if unknown else ""
        return f"about {time} for {counts} {'run' if most == 1 else 'runs'} left{rest}"

    def _with_estimate(self, case_id: str, part: Part) -> Part:
        """Return ``part`` of a case with what is known of it, of its runs, or of other cases."""
        if part.span is not None:
            return part
        runs = self._parts.get(case_id)
        if part.launches > 1 and runs is not None and runs.launches == 1:
            of_run = self._with_estimate(case_id, runs).span
            if of_run is None:
                return part
            longer_s = WINDOW_S if CaseId.parse(case_id).layout.device == "cpu" else 0.0
            of_pair = part.launches * of_run[0], part.launches * (of_run[1] + longer_s)
            return replace(part, about=of_pair)
        times = [
            (CaseId.parse(i), p.seconds / p.launches) for i, p in self._parts.items() if p.seconds
        ]
        about = alike(CaseId.parse(case_id), times)
        if about is not None:
            about = part.launches * about[0], part.launches * about[1]
        return replace(part, about=about)

    def ended(self, case_id: str) -> None:
        """Take out a case that has ended, one way or another, and the parent it alone needs."""
        self._parts.pop(case_id, None)
        self._pairs.pop(case_id, None)
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
        return sum(part.left[0] * (part.seconds or 0.0) for part in left)


def _runs(parts: Sequence[Part]) -> str:
    fewest, most = min(part.fewest for part in parts), max(part.most for part in parts)
    counts = f"{fewest} to {most}" if fewest < most else f"{most}"
    what = "pair" if parts[0].launches > 1 else "run"
    return f"{counts} {what}{'' if most == 1 else 's'}"


def alike(case: CaseId, times: Sequence[tuple[CaseId, float]]) -> Seconds | None:
    """Return the least and the most seconds of the known cases that are most like ``case``.

    Those of its suite and size, else all of its framework, on the same kind of device. None if
    there is none.
    """
    same = [
        (timed, seconds)
        for timed, seconds in times
        if (timed.framework, timed.layout.device) == (case.framework, case.layout.device)
    ]
    of_same_suite = [
        s for timed, s in same if (timed.suite, timed.size) == (case.suite, case.size)
    ]
    matching = of_same_suite or [seconds for _, seconds in same]
    return (min(matching), max(matching)) if matching else None


def _sum(parts: Sequence[Part], counts: Sequence[tuple[float, float]]) -> str:
    """Return the time of as many runs of each part, whose seconds are known or estimated."""
    low = high = 0.0
    for part, (fewest, most) in zip(parts, counts, strict=True):
        least, longest = part.span or (0.0, 0.0)
        low, high = low + fewest * least, high + most * longest
    return span(low, high)
