"""What profiles of both arms show beside parts and operators: modules, memory, stacks, launches.

Each takes the records of one rank, from the launches of before and of now; of before there may be
none.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from pytest_dlperf.core.outcome import MemoryChange, ModuleTime, StackTime
from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.judge.explain.operator_changes import GROWN, STORED_PLACES

Records = Sequence[ProfileRecord]
#: Bytes and number of allocations by place.
_Sizes = Mapping[str, tuple[int, int]]
#: Rows that are kept.
_MODULES: Final = 200
_PLACES: Final = 15
_STACKS: Final = 15
#: Memory is named beyond this many times the difference of equal profiles, this share of the
#: peak, and so many bytes.
_SPREADS: Final = 2.0
_OF_PEAK: Final = 0.01
_LEAST_BYTES: Final = 1_000_000


def launches(records: Records) -> float | None:
    """Return kernels and copies that a step starts; None on a CPU, and without records."""
    counts = [count for one in records if (count := one.get("launches")) is not None]
    return statistics.fmean(counts) if counts else None


def module_times(before: Records, now: Records) -> tuple[ModuleTime, ...]:
    """Return the time of the operators of each module path, in the order of the paths."""
    rows = [_path_times(record) for record in now]
    earlier = [_path_times(record) for record in before]
    paths = {path for record in (*rows, *earlier) for path in record}
    times = [
        ModuleTime(path=path, before_ms=_mean(earlier, path), after_ms=_mean(rows, path) or 0.0)
        for path in paths
    ]
    times.sort(key=lambda module: -max(module.after_ms, module.before_ms or 0.0))
    return tuple(sorted(times[:_MODULES], key=lambda module: module.path))


def _path_times(record: ProfileRecord) -> dict[str, float]:
    times: dict[str, float] = {}
    for row in record["operators"]:
        times[row["path"]] = times.get(row["path"], 0.0) + row["seconds"] * 1000
    return times


def memory_changes(
    before: Records, now: Records
) -> tuple[tuple[float | None, float | None], tuple[MemoryChange, ...]]:
    """Return bytes at the peak before and now, and what they consist of by place.

    None and no places where the profiler of the framework does not know them.
    """
    old, new = (
        [record["memory"] for record in side if "memory" in record] for side in (before, now)
    )
    peaks = tuple(
        statistics.fmean(memory["peak_bytes"] for memory in side) if side else None
        for side in (old, new)
    )
    if not new:
        return (peaks[0], None), ()
    olds, news = (
        [
            {row["place"]: (row["bytes"], row["count"]) for row in memory["allocations"]}
            for memory in side
        ]
        for side in (old, new)
    )
    changes = []
    for place in _comparable(olds, news):
        earlier, later = ([rows.get(place, (0, 0)) for rows in side] for side in (olds, news))
        sizes, latest = ([float(size) for size, _ in side] for side in (earlier, later))
        changes.append(
            MemoryChange(
                place=place,
                before_bytes=statistics.fmean(sizes) if sizes else None,
                after_bytes=statistics.fmean(latest),
                before_count=statistics.fmean(count for _, count in earlier) if earlier else None,
                after_count=statistics.fmean(count for _, count in later),
                named=_is_beyond(sizes, latest, peaks[1] or 0.0),
            )
        )
    changes.sort(
        key=lambda change: (
            not change.named,
            -abs(change.after_bytes - (change.before_bytes or 0)),
        )
    )
    return (peaks[0], peaks[1]), tuple(changes[:_PLACES])


def _comparable(olds: Sequence[_Sizes], news: Sequence[_Sizes]) -> set[str]:
    """Return the places that every record has, or would have: a stored one has the largest."""
    records = (*olds, *news)
    places = {place for rows in records for place in rows}
    if not olds:
        return places
    cuts = (min(rows.values())[0] for rows in records if len(rows) >= STORED_PLACES)
    least = GROWN * max(cuts, default=0)
    return {
        place
        for place in places
        if all(place in rows for rows in records)
        or max(rows.get(place, (0, 0))[0] for rows in records) > least
    }


def _is_beyond(before: Sequence[float], now: Sequence[float], peak: float) -> bool:
    if min(len(before), len(now)) < 2:
        return False
    spread = max(max(values) - min(values) for values in (before, now))
    difference = abs(statistics.fmean(now) - statistics.fmean(before))
    return difference > max(_SPREADS * spread, _OF_PEAK * peak, _LEAST_BYTES)


def stack_times(before: Records, now: Records) -> tuple[StackTime, ...]:
    """Return the stacks of the host whose time differs most; none where nothing sampled them."""
    old, new = (
        [
            {row["frames"]: row["seconds"] * 1000 for row in record["stacks"]}
            for record in side
            if "stacks" in record
        ]
        for side in (before, now)
    )
    if not new:
        return ()
    times = [
        StackTime(frames=frames, before_ms=_mean(old, frames), after_ms=_mean(new, frames) or 0.0)
        for frames in {frames for rows in (*old, *new) for frames in rows}
    ]
    times.sort(key=lambda stack: -abs(stack.after_ms - (stack.before_ms or 0.0)))
    return tuple(times[:_STACKS])


def _mean(several: Sequence[dict[str, float]], key: str) -> float | None:
    """Return the mean of a row, 0 where one has none; None of nothing."""
    return statistics.fmean(one.get(key, 0.0) for one in several) if several else None
