"""Say which parts of a step, and which operators, a change of the speed comes from.

A profile is what the ranks of one launch recorded of a few steps. The parts of a step are disjoint
and add up to it, so the differences of the parts add up to that of the step. Two profiles of each
arm show how much equal profiles differ; only what differs by more is named.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypedDict

from pytest_dlperf.core.outcome import (
    Explanation,
    MemoryChange,
    ModuleTime,
    PartChange,
    RankWait,
    StackTime,
)
from pytest_dlperf.core.verdict import Comparison, Verdict
from pytest_dlperf.judge.explain import profile_tables
from pytest_dlperf.judge.explain.idle_time import with_idle_time
from pytest_dlperf.judge.explain.operator_changes import (
    COMMUNICATION,
    Limits,
    Profile,
    is_cut,
    kept_record,
    operator_changes,
    times_by_calls,
)
from pytest_dlperf.judge.explain.sentences import (
    change_words,
    contradiction_words,
    memory_words,
    now_words,
    waits_words,
)
from pytest_dlperf.judge.explain.stacks_alone import explain_by_stacks, has_stacks_alone

#: The profiles agree with the verdict between these multiples of the ends of its interval:
#: a profiled step is slower than a measured one, which is not profiled.
_LEAST: Final = 0.5
_MOST: Final = 2.0
#: Parts, named as ``worker/step_parts.py`` does.
_COMPUTE: Final = "compute"
_PYTHON: Final = "Python and launches"


def attribute(
    before: Sequence[Profile],
    now: Sequence[Profile],
    judged: Comparison,
    memory: Comparison | None = None,
) -> Explanation:
    """Return what profiles of the two arms show of the changes that were judged.

    ``judged`` is that of throughput, ``memory`` that of the peak memory where it regressed.
    Without any of before, the parts of now alone. ``now`` has one or more.
    """
    if has_stacks_alone(now):
        return explain_by_stacks(before, now)
    rank = rank_of(now, judged, memory)
    explanation = _steps_explained(before, now, judged, rank)
    if memory is None:
        return explanation
    words = memory_words(explanation)
    if judged.verdict is Verdict.REGRESSED:
        words = f"{explanation.sentence}; {words}"
    return replace(explanation, sentence=words)


def rank_of(
    profiles: Sequence[Profile], judged: Comparison, memory: Comparison | None = None
) -> int:
    """Return the rank that the tables are of: the critical one, or that with the highest peak."""
    if has_stacks_alone(profiles):
        return min(set.intersection(*(set(profile) for profile in profiles)))
    if memory is None or judged.verdict is Verdict.REGRESSED:
        return critical_rank(profiles)
    peaks = [_peaks(profile) for profile in profiles]
    ranks = sorted(set.intersection(*map(set, peaks)))
    if not ranks:
        return critical_rank(profiles)
    return max(ranks, key=lambda rank: statistics.fmean(one[rank] for one in peaks))


def _peaks(profile: Profile) -> dict[int, int]:
    return {rank: one["memory"]["peak_bytes"] for rank, one in profile.items() if "memory" in one}


def _steps_explained(
    before: Sequence[Profile], now: Sequence[Profile], judged: Comparison, rank: int
) -> Explanation:
    """Return what the profiles show of the steps of ``rank``, with all tables."""
    before, now = with_idle_time([profile for profile in before if rank in profile], now, rank)
    after = [_parts(profile, rank) for profile in now]
    earlier = [_parts(profile, rank) for profile in before]
    parts = sorted({part for times in (*after, *earlier) for part in times})
    whole_after = _mean_of(after, lambda times: sum(times.values()))
    if not earlier:
        return Explanation(
            rank=rank,
            after_ms=whole_after,
            parts=tuple(_only_now(after, part) for part in parts),
            operators=operator_changes([], now, rank, Limits(0, 0, 0), frozenset()),
            sentence=now_words(after, parts, whole_after),
            **_tables([], now, rank, Limits(0, 0, 0), has_stacks=True),
        )
    whole_before = _mean_of(earlier, lambda times: sum(times.values()))
    difference = whole_after - whole_before
    steps = [[sum(times.values()) for times in profiles] for profiles in (earlier, after)]
    work = [[times.get(_COMPUTE, 0.0) for times in profiles] for profiles in (earlier, after)]
    limits = Limits(whole_before, difference, max(map(_relative_spread, (*steps, *work))))
    spread = max(max(values) - min(values) for values in steps) / whole_before
    agrees = _agrees(difference / whole_before, spread, judged)
    by_calls = times_by_calls(before, now, rank)
    # Where no change was judged, or the profiles do not show it, what parts differ by is no part
    # of it; that calls were added or removed is a fact all the same
    is_shown = agrees and _is_change(judged)
    changes = [
        _change(
            part,
            earlier,
            after,
            limits,
            by_calls.get(part),
            has_times=is_shown and _is_apart(part, before, now, rank),
        )
        for part in parts
    ]
    if agrees and difference:
        changes = [
            replace(change, share=(change.difference_ms or 0.0) / difference) for change in changes
        ]
    changes.sort(key=lambda change: -abs(change.difference_ms or 0))
    named = frozenset(change.part for change in changes if change.named)
    operators = operator_changes(before, now, rank, limits, named)
    tables = _tables(before, now, rank, limits, has_stacks=_is_python(changes))
    return Explanation(
        rank=rank,
        before_ms=whole_before,
        after_ms=whole_after,
        agrees=agrees,
        parts=tuple(changes),
        operators=operators,
        sentence=change_words(
            changes, operators, difference, has_spread=min(len(earlier), len(after)) > 1
        )
        + waits_words(rank, tables["ranks"])
        if agrees
        else contradiction_words(operators, difference, spread * whole_before),
        **tables,
    )


def critical_rank(profiles: Sequence[Profile]) -> int:
    """Return the rank with the least exposed communication: the others wait for it."""
    ranks = sorted(set.intersection(*(set(profile) for profile in profiles)))
    return min(
        ranks,
        key=lambda rank: _mean_of(
            [_parts(profile, rank) for profile in profiles],
            lambda one: one.get(COMMUNICATION, 0.0),
        ),
    )


def _parts(profile: Profile, rank: int) -> dict[str, float]:
    """Return the milliseconds of each part in one step of ``rank``."""
    windows = profile[rank]["windows"]
    steps = sum(window["steps"] for window in windows)
    times: dict[str, float] = {}
    for window in windows:
        for name, seconds in window["parts"].items():
            times[name] = times.get(name, 0.0) + seconds * 1000 / steps
    return times


def _mean_of(
    profiles: Sequence[dict[str, float]], value: Callable[[dict[str, float]], float]
) -> float:
    return statistics.fmean(value(one) for one in profiles)


class _Tables(TypedDict):
    """Fields of an explanation beside its parts and operators."""

    before_launches: float | None
    after_launches: float | None
    modules: tuple[ModuleTime, ...]
    ranks: tuple[RankWait, ...]
    before_peak_bytes: float | None
    after_peak_bytes: float | None
    memory: tuple[MemoryChange, ...]
    stacks: tuple[StackTime, ...]


def _tables(
    before: Sequence[Profile],
    now: Sequence[Profile],
    rank: int,
    limits: Limits,
    *,
    has_stacks: bool,
) -> _Tables:
    old, new = ([profile[rank] for profile in profiles] for profiles in (before, now))
    # Both sides of a sum have as many rows
    alike = [kept_record(record, rank) for record in new] if any(map(is_cut, old)) else new
    peaks, memory = profile_tables.memory_changes(old, new)
    return _Tables(
        before_launches=profile_tables.launches(old),
        after_launches=profile_tables.launches(new),
        modules=profile_tables.module_times(old, alike),
        ranks=_rank_waits(before, now, rank, limits),
        before_peak_bytes=peaks[0],
        after_peak_bytes=peaks[1],
        memory=memory,
        stacks=profile_tables.stack_times(old, new) if has_stacks else (),
    )


def _is_python(changes: Sequence[PartChange]) -> bool:
    """Return whether Python and launches became longer by more than any other part."""
    longest = max(changes, key=lambda change: change.difference_ms or 0.0)
    return longest.part == _PYTHON and longest.named


def _rank_waits(
    before: Sequence[Profile], now: Sequence[Profile], rank: int, limits: Limits
) -> tuple[RankWait, ...]:
    """Return the exposed communication of each rank; of nothing where only one is known."""
    ranks = sorted(set.intersection(*(set(profile) for profile in (*before, *now))))
    if len(ranks) < 2:
        return ()
    exposed = {
        other_rank: [
            [_parts(profile, other_rank).get(COMMUNICATION, 0.0) for profile in profiles]
            for profiles in (before, now)
        ]
        for other_rank in ranks
    }
    waits = []
    for other_rank in ranks:
        old, new = (
            [own_ms - critical_ms for own_ms, critical_ms in zip(*pair, strict=True)]
            for pair in zip(exposed[other_rank], exposed[rank], strict=True)
        )
        grew = bool(old) and statistics.fmean(new) > statistics.fmean(old)
        waits.append(
            RankWait(
                rank=other_rank,
                before_ms=statistics.fmean(exposed[other_rank][0]) if before else None,
                after_ms=statistics.fmean(exposed[other_rank][1]),
                named=grew and limits.is_beyond(old, new),
            )
        )
    return tuple(waits)


def _relative_spread(values: Sequence[float]) -> float:
    """Return how much ``values`` differ, as a share of their mean; 0 for none."""
    mean = statistics.fmean(values)
    return (max(values) - min(values)) / mean if mean > 0 else 0.0


def _change(
    part: str,
    before: Sequence[dict[str, float]],
    now: Sequence[dict[str, float]],
    limits: Limits,
    by_calls: tuple[list[float], list[float]] | None,
    *,
    has_times: bool,
) -> PartChange:
    """Return how ``part`` changed, without its share of the step's change.

    ``by_calls`` are the times of its operators whose calls changed. What the other operators
    differ by counts only beyond the spread of equal profiles: the former say what was planted, and
    the latter how much the machine differs from launch to launch.
    """
    olds, news = ([times.get(part, 0.0) for times in several] for several in (before, now))
    before_ms, after_ms = statistics.fmean(olds), statistics.fmean(news)
    change = PartChange(
        part=part,
        before_ms=before_ms,
        after_ms=after_ms,
        difference_ms=after_ms - before_ms,
        share=None,
        named=has_times and limits.is_beyond(olds, news),
    )
    if by_calls is None:
        return change
    if part == COMMUNICATION:
        # Its operators overlap with computation: only what is exposed of all is known
        return replace(change, named=change.named or limits.is_alike(olds, news))
    if not limits.is_alike(*by_calls):
        return change
    without_calls = [
        [whole - counted for whole, counted in zip(wholes, times, strict=True)]
        for wholes, times in zip((olds, news), by_calls, strict=True)
    ]
    if change.named and limits.is_beyond(*without_calls):
        return change
    counted_ms = statistics.fmean(by_calls[1]) - statistics.fmean(by_calls[0])
    return replace(change, named=True, by_calls_ms=counted_ms)


#: Of the pairs of a window of each arm, so many differ in the same way: a step in twenty may be
#: disturbed by other programs.
_OF_PAIRS: Final = 0.95


def _is_apart(part: str, before: Sequence[Profile], now: Sequence[Profile], rank: int) -> bool:
    """Return whether nearly every window of one arm has more of the part than those of the other.

    A difference of means can be that of one launch, or of one step.
    """
    olds, news = (
        [
            window["parts"].get(part, 0.0) / window["steps"]
            for profile in side
            for window in profile[rank]["windows"]
        ]
        for side in (before, now)
    )
    longer = sum(new > old for old in olds for new in news)
    shorter = sum(new < old for old in olds for new in news)
    return max(longer, shorter) >= _OF_PAIRS * len(olds) * len(news)


def _only_now(now: Sequence[dict[str, float]], part: str) -> PartChange:
    return PartChange(
        part=part,
        before_ms=None,
        after_ms=_mean_of(now, lambda one: one.get(part, 0.0)),
        difference_ms=None,
        share=None,
        named=False,
    )


def _is_change(judged: Comparison) -> bool:
    """Return whether the judged interval leaves out that nothing changed; true without one."""
    return judged.interval is None or not judged.interval[0] <= 0 <= judged.interval[1]


def _agrees(slower: float, spread: float, judged: Comparison) -> bool:
    """Return whether steps that are longer by ``slower``, a share, show the judged change.

    ``spread`` is how much equal profiles differ, as a share of the step before.
    """
    if judged.change is None:
        return True
    low, high = judged.interval or (judged.change, judged.change)
    # Of throughput, where the lower end is the larger slowdown
    most, least = 1 / (1 + low) - 1, 1 / (1 + high) - 1
    if judged.change < 0:
        return slower > 0 and _LEAST * least - spread <= slower <= _MOST * most + spread
    return _MOST * least - spread <= slower <= _LEAST * most + spread
