"""Operators in which two sides of profiles differ, and how large a difference must be to count."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from pytest_dlperf.core.outcome import OperatorChange
from pytest_dlperf.core.wire_profile import LiveMemory, ProfiledOperator, ProfileRecord

#: What the ranks of one launch recorded, by rank.
Profile = Mapping[int, ProfileRecord]

#: Path, name and part of an operator, and the operators of one launch by them.
_Key = tuple[str, str, str]
_Rows = Mapping[_Key, ProfiledOperator]

#: A difference is named beyond this many times the difference of two equal profiles, ...
_SPREADS: Final = 2.0
#: ... and beyond these shares of the step before, and of its difference.
_OF_STEP: Final = 0.01
_OF_DIFFERENCE: Final = 0.05
#: Operators that are shown.
_OPERATORS: Final = 20
#: What a stored profile may lack, since it has the largest alone, is new from this many times its
#: smallest on: until then it may have been there, and have grown.
GROWN: Final = 2.0
#: Of a stored profile.
_STORED_OPERATORS: Final = 60
_STORED_WAITS: Final = 10
STORED_PLACES: Final = 20
#: The part in which the others wait for a rank; named as ``worker/step_parts.py`` does.
COMMUNICATION: Final = "exposed communication"
WAITS: Final = "host waits"
_NEITHER: Final = (0.0, 0.0)


class Limits:
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

    def is_alike(self, before: Sequence[float], now: Sequence[float]) -> bool:
        """Return whether each launch differs alike from its neighbour, on average by enough.

        That is enough where counts say that something changed, so that the times need only show
        which way. Launches are in the order of time, before, now, now, before: the machine is the
        same for two neighbours, and perhaps not for all four. Never for one of an arm.
        """
        if min(len(before), len(now)) < 2:
            return False
        differences = [new - old for old, new in zip(before, now, strict=False)]
        if abs(statistics.fmean(now) - statistics.fmean(before)) <= self._least_ms:
            return False
        return min(differences) > 0 or max(differences) < 0


def operator_changes(
    before: Sequence[Profile],
    now: Sequence[Profile],
    rank: int,
    limits: Limits,
    named_parts: frozenset[str],
) -> tuple[OperatorChange, ...]:
    """Return the operators that changed; without any of before, those with the most time.

    One is named where its part is, or where its calls changed: those have no noise, so that its
    time need only differ alike.
    """
    olds = [_rows(profile, rank) for profile in before if rank in profile]
    news = [_rows(profile, rank) for profile in now]
    changes = []
    for key in sorted(_comparable(olds, news)):
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
                named=_is_named(key, olds, news, limits, part in named_parts),
                before_kernels=_kernels(olds, key),
                after_kernels=_kernels(news, key),
            )
        )
    if olds:
        changes = [
            change
            for change in changes
            if change.named
            or _calls_differ((change.path, change.operator, change.part), olds, news)
        ]
    changes.sort(key=_order)
    return tuple(changes[:_OPERATORS])


def _is_named(
    key: _Key,
    before: Sequence[_Rows],
    now: Sequence[_Rows],
    limits: Limits,
    is_of_named_part: bool,
) -> bool:
    if not before:
        return False
    earlier, later = ([_row(rows.get(key))[1] for rows in side] for side in (before, now))
    if _calls_differ(key, before, now) and limits.is_alike(earlier, later):
        return True
    return is_of_named_part and limits.is_beyond(earlier, later)


def times_by_calls(
    before: Sequence[Profile], now: Sequence[Profile], rank: int
) -> dict[str, tuple[list[float], list[float]]]:
    """Return by part the milliseconds, in each launch, of operators whose calls differ by arm.

    Those of communication are wall times that overlap with computation.
    """
    olds, news = ([_rows(profile, rank) for profile in side] for side in (before, now))
    by_part: dict[str, tuple[list[float], list[float]]] = {}
    for key in _comparable(olds, news):
        if not _calls_differ(key, olds, news):
            continue
        rows = [[_row(rows.get(key)) for rows in side] for side in (olds, news)]
        sums = by_part.setdefault(key[2], ([0.0] * len(olds), [0.0] * len(news)))
        for total, side in zip(sums, rows, strict=True):
            for index, (_, ms) in enumerate(side):
                total[index] += ms
    return by_part


def kept_record(record: ProfileRecord, rank: int) -> ProfileRecord:
    """Return what is stored of a rank's profile: its windows, and its largest operators."""
    rows = record["operators"]
    # Waits take no time of a GPU, and are last
    waits = [row for row in rows[_STORED_OPERATORS:] if row["part"] == WAITS]
    kept = ProfileRecord(
        rank=rank,
        windows=record["windows"],
        operators=[*rows[:_STORED_OPERATORS], *waits[:_STORED_WAITS]],
    )
    if "launches" in record:
        kept["launches"] = record["launches"]
    if "memory" in record:
        memory = record["memory"]
        kept["memory"] = LiveMemory(
            peak_bytes=memory["peak_bytes"], allocations=memory["allocations"][:STORED_PLACES]
        )
    return kept


def is_cut(record: ProfileRecord) -> bool:
    """Return whether a record may lack operators, as a stored one does."""
    return _cut_ms(_rows({0: record}, 0)) > 0


def _comparable(olds: Sequence[_Rows], news: Sequence[_Rows]) -> set[_Key]:
    """Return the operators that every record has, or would have."""
    records = (*olds, *news)
    keys = {key for rows in records for key in rows}
    if not olds:
        return keys
    least_ms = GROWN * max(map(_cut_ms, records))
    return {
        key
        for key in keys
        if key[2] == WAITS
        or all(key in rows for rows in records)
        or max(_row(rows.get(key))[1] for rows in records) > least_ms
    }


def _cut_ms(rows: _Rows) -> float:
    """Return the time below which a record may lack operators."""
    # Waits take no time of a GPU, and are kept all the same
    kept_ms = [row["seconds"] * 1000 for row in rows.values() if row["part"] != WAITS]
    return min(kept_ms) if len(kept_ms) >= _STORED_OPERATORS else 0.0


def _rows(profile: Profile, rank: int) -> dict[_Key, ProfiledOperator]:
    return {(one["path"], one["name"], one["part"]): one for one in profile[rank]["operators"]}


def _row(row: ProfiledOperator | None) -> tuple[float, float]:
    """Return calls and milliseconds of a step."""
    return _NEITHER if row is None else (row["calls"], row["seconds"] * 1000)


def _means(rows: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return statistics.fmean(calls for calls, _ in rows), statistics.fmean(ms for _, ms in rows)


def _kernels(several: Sequence[_Rows], key: _Key) -> tuple[str, ...]:
    names = (name for rows in several if key in rows for name in rows[key].get("kernels", ()))
    return tuple(dict.fromkeys(names))


def _calls_differ(key: _Key, before: Sequence[_Rows], now: Sequence[_Rows]) -> bool:
    """Return whether each arm calls it equally often in its profiles, and the arms do not."""
    counts = [{round(_row(rows.get(key))[0], 3) for rows in several} for several in (before, now)]
    return all(len(one) == 1 for one in counts) and counts[0] != counts[1]


def _order(change: OperatorChange) -> tuple[bool, bool, float]:
    """Sort what was added or removed first, then what is named, then by the time."""
    ms = change.after_ms if change.difference_ms is None else abs(change.difference_ms)
    is_new = (change.is_added or change.is_removed) and change.named
    return not is_new, not change.named, -ms
