"""The changes of a series: levels, the outcomes between which they lie, what else changed."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.history import Change
from pytest_dlperf.store.history.change_points import SHARE_MIN, change_points
from pytest_dlperf.store.history.query import differences, whole_outcomes
from pytest_dlperf.store.history.split_range import split_range

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import sqlalchemy as sa

    from pytest_dlperf.core.history import Point, Series
    from pytest_dlperf.core.outcome import Outcome
    from pytest_dlperf.store.history.change_points import Split

#: Outcomes on each side of a change whose canary is read.
_BESIDE: Final = 5


def changes_of(series: Series, *, share_min: float = SHARE_MIN) -> tuple[Change, ...]:
    """Return the changes of one series, oldest first; ``UsageError`` without Otava."""
    # A rate of 0 has no logarithm, which levels are told apart by
    points = [point for point in series.level_points if point.throughput]
    values = [point.throughput or 0.0 for point in points]
    if len(values) < 2:
        return ()
    splits = change_points(values, share_min=share_min)
    borders = [0, *(split.index for split in splits), len(points)]
    return tuple(
        _change(series, points[start:stop], values[start:stop], replace(split, index=at - start))
        for split, start, at, stop in zip(splits, borders, borders[1:], borders[2:], strict=False)
    )


def _change(
    series: Series, points: Sequence[Point], values: Sequence[float], split: Split
) -> Change:
    first, last = split_range(values)
    # The range is of the best split of these points; Otava's may be another
    first, last = min(first, split.index), max(last, split.index)
    before = statistics.fmean(values[: split.index])
    after = statistics.fmean(values[split.index :])
    return Change(
        case_id=series.case_id,
        machine_class=series.machine_class,
        node=series.node,
        unit=series.unit,
        before=before,
        after=after,
        change=after / before - 1,
        p=split.p,
        time=points[split.index].time,
        number=points[split.index].number,
        last_before=points[first - 1],
        first_after=points[last],
        points_before=split.index,
        points_after=len(points) - split.index,
    )


def with_causes(connection: sa.Connection, series: Series, change: Change) -> Change:
    """Return ``change`` with what of the software and of the canary changed beside it."""
    points = series.level_points
    last, first = points.index(change.last_before), points.index(change.first_after)
    before = points[max(0, last + 1 - _BESIDE) : last + 1]
    after = points[first : first + _BESIDE]
    outcomes = whole_outcomes(connection, [point.number for point in (*before, *after)])
    old, new = outcomes[: len(before)], outcomes[len(before) :]
    return replace(
        change,
        software=differences(_software(old[-1]), _software(new[0])),
        canary=dict(_canary_changes(old, new)),
    )


def _software(outcome: Outcome) -> Mapping[str, str]:
    return outcome.environment.software if outcome.environment else {}


def _canary_changes(
    before: Sequence[Outcome], after: Sequence[Outcome]
) -> Iterator[tuple[str, float]]:
    old, new = _canary(before), _canary(after)
    for name in sorted({*old} & {*new}):
        level = statistics.median(old[name])
        if level > 0:
            yield name, statistics.median(new[name]) / level - 1


def _canary(outcomes: Sequence[Outcome]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for outcome in outcomes:
        for run in outcome.measurement.runs if outcome.measurement else ():
            for name, rate in run.canary.items():
                found.setdefault(name, []).append(rate)
    return found
