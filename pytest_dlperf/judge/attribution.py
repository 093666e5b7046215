"""Say which parts of a step, and which operators, a change of the speed comes from.

A profile is what the ranks of one launch recorded of a few steps. The parts of a step are disjoint
and add up to it, so the differences of the parts add up to that of the step. Two profiles of each
arm show how much equal profiles differ; only what differs by more is named.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypedDict

from pytest_dlperf.core.outcome import (
    Explanation,
    MemoryChange,
    ModuleTime,
    OperatorChange,
    PartChange,
    RankWait,
    StackTime,
)
from pytest_dlperf.core.verdict import Comparison
from pytest_dlperf.core.wire_profile import LiveMemory, ProfiledOperator, ProfileRecord
from pytest_dlperf.judge import profile_tables

#: What the ranks of one launch recorded, by rank.
Profile = Mapping[int, ProfileRecord]

#: A difference is named beyond this many times the difference of two equal profiles, ...
_SPREADS: Final = 2.0
#: ... and beyond these shares of the step before, and of its difference.
_OF_STEP: Final = 0.01
_OF_DIFFERENCE: Final = 0.05
#: The profiles agree with the verdict between these multiples of the ends of its interval:
#: a profiled step is slower than a measured one, which is not profiled.
_LEAST: Final = 0.5
_MOST: Final = 2.0
#: Operators that are shown, and parts in the sentence.
_OPERATORS: Final = 20
_CLAUSES: Final = 3
#: Operators of a stored profile.
_STORED_OPERATORS: Final = 60
_STORED_WAITS: Final = 10
_STORED_PLACES: Final = 20
#: The part in which the others wait for a rank; named as ``worker/step_parts.py`` does.
_COMMUNICATION: Final = "exposed communication"
_COMPUTE: Final = "compute"
_WAITS: Final = "host waits"
_AFTER_WAITS: Final = "after host waits"
_PYTHON: Final = "Python and launches"
#: A step waits more often than before from this difference on.
_MORE_WAITS: Final = 0.5
_NEITHER: Final = (0.0, 0.0)


def attribute(
    before: Sequence[Profile], now: Sequence[Profile], judged: Comparison
) -> Explanation:
    """Return what profiles of the two arms show of the change that was judged.

    Without any of before, the parts of now alone. ``now`` has one or more.
    """
    rank = critical_rank(now)
    before = [profile for profile in before if rank in profile]
    waits = _part_after_waits(before, now, rank)
    after = [_parts(profile, rank, waits) for profile in now]
    earlier = [_parts(profile, rank, waits) for profile in before]
    parts = sorted({part for one in (*after, *earlier) for part in one})
    whole_after = _mean_of(after, lambda one: sum(one.values()))
    if not earlier:
        return Explanation(
            rank=rank,
            after_ms=whole_after,
            parts=tuple(_only_now(after, part) for part in parts),
            operators=_operators([], now, rank, _Limits(0, 0, 0), frozenset()),
            sentence=_now_words(after, parts, whole_after),
            **_tables([], now, rank, _Limits(0, 0, 0), has_stacks=True),
        )
    whole_before = _mean_of(earlier, lambda one: sum(one.values()))
    difference = whole_after - whole_before
    steps = [[sum(one.values()) for one in profiles] for profiles in (earlier, after)]
    work = [[one.get(_COMPUTE, 0.0) for one in profiles] for profiles in (earlier, after)]
    limits = _Limits(whole_before, difference, max(map(_relative_spread, (*steps, *work))))
    spread = max(max(values) - min(values) for values in steps) / whole_before
    agrees = _agrees(difference / whole_before, spread, judged)
    sums = _sums_by_calls(before, now, rank)
    changes = [
        _change(
            part,
            earlier,
            after,
            limits,
            sums.get(part),
            is_apart=_is_apart(part, before, now, rank, waits),
        )
        for part in parts
    ]
    if agrees and difference:
        changes = [replace(one, share=(one.difference_ms or 0.0) / difference) for one in changes]
    changes.sort(key=lambda change: -abs(change.difference_ms or 0))
    named = frozenset(change.part for change in changes if change.named)
    operators = _operators(before, now, rank, limits, named)
    tables = _tables(before, now, rank, limits, has_stacks=_is_python(changes))
    return Explanation(
        rank=rank,
        before_ms=whole_before,
        after_ms=whole_after,
        agrees=agrees,
        parts=tuple(changes),
        operators=operators,
        sentence=_words(changes, operators, difference) + _waits_words(rank, tables["ranks"])
        if agrees
        else _contradiction(operators, difference, spread * whole_before),
        **tables,
    )


def critical_rank(profiles: Sequence[Profile]) -> int:
    """Return the rank with the least exposed communication: the others wait for it."""
    ranks = sorted(set.intersection(*(set(profile) for profile in profiles)))
    return min(
        ranks,
        key=lambda rank: _mean_of(
            [_parts(profile, rank) for profile in profiles],
            lambda one: one.get(_COMMUNICATION, 0.0),
        ),
    )


def _part_after_waits(before: Sequence[Profile], now: Sequence[Profile], rank: int) -> str:
    """Return the part that a GPU's idle time after a wait of the host belongs to.

    The host's program is exposed then. If it waits more often than before, the waits are why; with
    equally many, what became longer is the program.
    """
    old, new = (
        statistics.fmean(_waits(profile, rank) for profile in profiles) if profiles else 0.0
        for profiles in (before, now)
    )
    return _WAITS if new > old + _MORE_WAITS and before else _PYTHON


def _waits(profile: Profile, rank: int) -> float:
    """Return how often the host waits in a step."""
    return sum(one["calls"] for one in profile[rank]["operators"] if one["part"] == _WAITS)


def _parts(profile: Profile, rank: int, after_waits: str = _PYTHON) -> dict[str, float]:
    """Return the milliseconds of each part in one step of ``rank``."""
    windows = profile[rank]["windows"]
    steps = sum(window["steps"] for window in windows)
    found: dict[str, float] = {}
    for window in windows:
        for name, seconds in window["parts"].items():
            part = after_waits if name == _AFTER_WAITS else name
            found[part] = found.get(part, 0.0) + seconds * 1000 / steps
    return found


def kept_record(record: ProfileRecord) -> ProfileRecord:
    """Return what is stored of a profile: its windows, and the operators with the most time."""
    rows = record["operators"]
    # Waits take no time of a GPU, and are last
    waits = [one for one in rows[_STORED_OPERATORS:] if one["part"] == _WAITS]
    kept = ProfileRecord(
        windows=record["windows"], operators=[*rows[:_STORED_OPERATORS], *waits[:_STORED_WAITS]]
    )
    if "launches" in record:
        kept["launches"] = record["launches"]
    if "memory" in record:
        memory = record["memory"]
        kept["memory"] = LiveMemory(
            peak_bytes=memory["peak_bytes"], allocations=memory["allocations"][:_STORED_PLACES]
        )
    return kept


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
    limits: _Limits,
    *,
    has_stacks: bool,
) -> _Tables:
    old, new = ([profile[rank] for profile in profiles] for profiles in (before, now))
    peaks, memory = profile_tables.memory_changes(old, new)
    return _Tables(
        before_launches=profile_tables.launches(old),
        after_launches=profile_tables.launches(new),
        modules=profile_tables.module_times(old, new),
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
    before: Sequence[Profile], now: Sequence[Profile], rank: int, limits: _Limits
) -> tuple[RankWait, ...]:
    """Return the exposed communication of each rank; of nothing where only one is known."""
    ranks = sorted(set.intersection(*(set(profile) for profile in (*before, *now))))
    if len(ranks) < 2:
        return ()
    exposed = {
        one: [
            [_parts(profile, one).get(_COMMUNICATION, 0.0) for profile in profiles]
            for profiles in (before, now)
        ]
        for one in ranks
    }
    found = []
    for one in ranks:
        old, new = (
            [mine - its for mine, its in zip(*pair, strict=True)]
            for pair in zip(exposed[one], exposed[rank], strict=True)
        )
        grew = bool(old) and statistics.fmean(new) > statistics.fmean(old)
        found.append(
            RankWait(
                rank=one,
                before_ms=statistics.fmean(exposed[one][0]) if before else None,
                after_ms=statistics.fmean(exposed[one][1]),
                named=grew and limits.is_beyond(old, new),
            )
        )
    return tuple(found)


def _waits_words(rank: int, waits: Sequence[RankWait]) -> str:
    """Return which ranks wait longer for the critical one; empty if none does."""
    critical = next((one for one in waits if one.rank == rank), None)
    named = [one for one in waits if one.named]
    if critical is None or not named:
        return ""
    most = max(named, key=lambda one: one.after_ms - (one.before_ms or 0.0))
    more_ms = (most.after_ms - critical.after_ms) - (
        (most.before_ms or 0.0) - (critical.before_ms or 0.0)
    )
    others = f" (and {len(named) - 1} more)" if len(named) > 1 else ""
    return f"; rank {most.rank}{others} waits {_ms(more_ms)} ms longer for rank {rank}"


class _Limits:
    """Says which differences are beyond the spread of equal profiles.

    ``relative_spread`` is that of the step or of its computation, whichever is larger, as a share:
    two profiles say little of how much one row varies, and no row is steadier than the machine.
    """

    def __init__(self, step_ms: float, difference_ms: float, relative_spread: float) -> None:
        self._relative_spread = relative_spread
        self._least_ms = max(_OF_STEP * step_ms, _OF_DIFFERENCE * abs(difference_ms))

    def is_beyond(self, before: Sequence[float], now: Sequence[float]) -> bool:
        """Return whether means differ by more than equal profiles do; never for one of an arm."""
        if min(len(before), len(now)) < 2:
            return False
        means = statistics.fmean(before), statistics.fmean(now)
        spread = max(max(values) - min(values) for values in (before, now))
        # Of what both have: an operator that was added has no other spread than its own
        spread = max(spread, self._relative_spread * min(means))
        difference = abs(means[1] - means[0])
        return difference > max(self._least_ms, _SPREADS * spread)


def _relative_spread(values: Sequence[float]) -> float:
    """Return how much ``values`` differ, as a share of their mean; 0 for none."""
    mean = statistics.fmean(values)
    return (max(values) - min(values)) / mean if mean > 0 else 0.0


def _change(
    part: str,
    before: Sequence[dict[str, float]],
    now: Sequence[dict[str, float]],
    limits: _Limits,
    by_calls: tuple[list[float], list[float]] | None,
    *,
    is_apart: bool,
) -> PartChange:
    """Return how ``part`` changed, without its share of the step's change."""
    olds, news = ([one.get(part, 0.0) for one in several] for several in (before, now))
    before_ms, after_ms = statistics.fmean(olds), statistics.fmean(news)
    difference = after_ms - before_ms
    is_beyond = is_apart and limits.is_beyond(olds, news)
    is_certain = not is_beyond and by_calls is not None and limits.is_beyond(*by_calls)
    return PartChange(
        part=part,
        before_ms=before_ms,
        after_ms=after_ms,
        difference_ms=difference,
        share=None,
        named=is_beyond or is_certain,
        by_calls_ms=statistics.fmean(by_calls[1]) - statistics.fmean(by_calls[0])
        if by_calls is not None and is_certain
        else None,
    )


def _is_apart(
    part: str, before: Sequence[Profile], now: Sequence[Profile], rank: int, after_waits: str
) -> bool:
    """Return whether the part is longer in every window of one arm than in any of the other."""
    olds, news = (
        [
            sum(
                seconds
                for name, seconds in window["parts"].items()
                if part == (after_waits if name == _AFTER_WAITS else name)
            )
            / window["steps"]
            for profile in side
            for window in profile[rank]["windows"]
        ]
        for side in (before, now)
    )
    return max(olds) < min(news) or max(news) < min(olds)


def _sums_by_calls(
    before: Sequence[Profile], now: Sequence[Profile], rank: int
) -> dict[str, tuple[list[float], list[float]]]:
    """Return by part the milliseconds, in each launch, of the calls that one arm alone has.

    Of an operator that one arm calls more often, they are that share of its time in this arm.
    """
    olds, news = ([_rows(profile, rank) for profile in side] for side in (before, now))
    least_ms = max(map(_cut_ms, (*olds, *news)))
    found: dict[str, tuple[list[float], list[float]]] = {}
    for key in {key for rows in (*olds, *news) for key in rows}:
        part = key[2]
        # Those of communication overlap with computation
        if part == _COMMUNICATION or not _calls_differ(key, olds, news):
            continue
        rows = [[_row(rows.get(key)) for rows in side] for side in (olds, news)]
        if max(ms for side in rows for _, ms in side) <= least_ms:
            continue
        fewest = min(calls for side in rows for calls, _ in side)
        sums = found.setdefault(part, ([0.0] * len(olds), [0.0] * len(news)))
        for total, side in zip(sums, rows, strict=True):
            for index, (calls, ms) in enumerate(side):
                total[index] += ms * (1 - fewest / calls) if calls else 0.0
    return found


def _cut_ms(rows: Mapping[tuple[str, str, str], ProfiledOperator]) -> float:
    """Return the time below which a record may lack operators."""
    if len(rows) < _STORED_OPERATORS:
        return 0.0
    return min(one["seconds"] * 1000 for one in rows.values())


def _only_now(now: Sequence[dict[str, float]], part: str) -> PartChange:
    return PartChange(
        part=part,
        before_ms=None,
        after_ms=_mean_of(now, lambda one: one.get(part, 0.0)),
        difference_ms=None,
        share=None,
        named=False,
    )


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


def _operators(
    before: Sequence[Profile],
    now: Sequence[Profile],
    rank: int,
    limits: _Limits,
    named_parts: frozenset[str],
) -> tuple[OperatorChange, ...]:
    """Return the operators that changed; without any of before, those with the most time.

    One is named where its part is, or where its calls changed.
    """
    olds = [_rows(profile, rank) for profile in before if rank in profile]
    news = [_rows(profile, rank) for profile in now]
    changes = []
    for key in sorted({key for rows in (*olds, *news) for key in rows}):
        path, name, part = key
        earlier, later = ([_row(rows.get(key)) for rows in s] for s in (olds, news))
        after_calls, after_ms = _means(later)
        before_calls, before_ms = _means(earlier) if earlier else (None, None)
        changes.append(
            OperatorChange(
                path=path,
                operator=name,
                part=part,
                before_calls=before_calls,
                after_calls=after_calls,
                before_ms=before_ms,
                after_ms=after_ms,
                difference_ms=None if before_ms is None else after_ms - before_ms,
                named=bool(earlier)
                and (part in named_parts or _calls_differ(key, olds, news))
                and limits.is_beyond([ms for _, ms in earlier], [ms for _, ms in later]),
                before_kernels=_kernels(olds, key),
                after_kernels=_kernels(news, key),
            )
        )
    if olds:
        changes = [
            one
            for one in changes
            if one.named or _calls_differ((one.path, one.operator, one.part), olds, news)
        ]
    changes.sort(key=_order)
    return tuple(changes[:_OPERATORS])


def _rows(profile: Profile, rank: int) -> dict[tuple[str, str, str], ProfiledOperator]:
    return {(one["path"], one["name"], one["part"]): one for one in profile[rank]["operators"]}


def _kernels(
    several: Sequence[Mapping[tuple[str, str, str], ProfiledOperator]], key: tuple[str, str, str]
) -> tuple[str, ...]:
    names = (name for rows in several if key in rows for name in rows[key].get("kernels", ()))
    return tuple(dict.fromkeys(names))


def _row(row: ProfiledOperator | None) -> tuple[float, float]:
    """Return calls and milliseconds of a step."""
    return _NEITHER if row is None else (row["calls"], row["seconds"] * 1000)


def _means(rows: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return statistics.fmean(calls for calls, _ in rows), statistics.fmean(ms for _, ms in rows)


def _calls_differ(
    key: tuple[str, str, str],
    before: Sequence[Mapping[tuple[str, str, str], ProfiledOperator]],
    now: Sequence[Mapping[tuple[str, str, str], ProfiledOperator]],
) -> bool:
    """Return whether each arm calls it equally often in its profiles, and the arms do not."""
    counts = [{round(_row(rows.get(key))[0], 3) for rows in several} for several in (before, now)]
    return all(len(one) == 1 for one in counts) and counts[0] != counts[1]


def _order(change: OperatorChange) -> tuple[bool, bool, float]:
    """Sort what was added or removed first, then what is named, then by the time."""
    ms = change.after_ms if change.difference_ms is None else abs(change.difference_ms)
    is_new = (change.is_added or change.is_removed) and change.named
    return not is_new, not change.named, -ms


def _contradiction(
    operators: Sequence[OperatorChange], difference_ms: float, spread_ms: float
) -> str:
    """Return that the profiles do not show the judged change, and what is certain all the same."""
    added = [one for one in operators if one.named and (one.is_added or one.is_removed)]
    certain = "".join(
        f"; {one.operator} was {'added' if one.is_added else 'removed'} "
        f"({_ms(max(one.before_ms or 0, one.after_ms))} ms)"
        for one in added[:_CLAUSES]
    )
    return (
        f"the profile does not show it: its steps take {_ms(abs(difference_ms))} ms "
        f"{'more' if difference_ms > 0 else 'less'}, and equal profiles differ by "
        f"{_ms(spread_ms)} ms{certain}"
    )


def _words(
    parts: Sequence[PartChange], operators: Sequence[OperatorChange], difference_ms: float
) -> str:
    named = [part for part in parts if part.named and part.difference_ms]
    way = "more" if difference_ms > 0 else "less"
    if not named:
        return (
            f"of {_ms(abs(difference_ms))} ms {way} a step, no part differs by more than equal "
            "profiles do"
        )
    named.sort(key=lambda one: -abs(stated_ms(one)))
    clauses = [f"{one.part} {_signed(one)}{_because(one, operators)}" for one in named[:_CLAUSES]]
    return f"of {_ms(abs(difference_ms))} ms {way} a step: {', '.join(clauses)}"


def stated_ms(part: PartChange) -> float:
    """Return what is said of a named part: what its calls account for, where that is certain."""
    if part.by_calls_ms is not None:
        return part.by_calls_ms
    return part.difference_ms or 0.0


def _signed(part: PartChange) -> str:
    difference = stated_ms(part)
    return f"{'+' if difference > 0 else '-'}{_ms(abs(difference))}"


def _because(part: PartChange, operators: Sequence[OperatorChange]) -> str:
    """Return the operator that explains most of a part's change, in brackets; empty for none."""
    mine = [one for one in operators if one.part == part.part and one.named]
    if not mine:
        return ""
    one = max(mine, key=lambda change: abs(change.difference_ms or 0))
    where = f" in {one.path}" if one.path else ""
    calls = ""
    if one.before_calls != one.after_calls:
        calls = f", {one.before_calls:g} to {one.after_calls:g} calls"
    return f" ({one.operator}{where} {_ms(one.before_ms or 0)} to {_ms(one.after_ms)} ms{calls})"


def _now_words(now: Sequence[dict[str, float]], parts: Sequence[str], whole_ms: float) -> str:
    mean = {part: statistics.fmean(one.get(part, 0.0) for one in now) for part in parts}
    largest = sorted(mean, key=lambda part: -mean[part])[:_CLAUSES]
    words = ", ".join(f"{part} {_ms(mean[part])}" for part in largest)
    return (
        f"of the {_ms(whole_ms)} ms of a profiled step now: {words}; no profile of before is "
        "there to compare with"
    )


def _ms(value: float) -> str:
    """Return milliseconds with three figures, whole from 100 on."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
