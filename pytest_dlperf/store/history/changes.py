"""Find where a series changed its level, between which outcomes, and what else changed."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from pytest_dlperf.core.command_results import Change, Point, Series
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.store.history.query import differences, stored_software, whole_outcomes

if TYPE_CHECKING:
    import sqlalchemy as sa


#: Of twice the log likelihood: splits that are less likely than the best by no more than this are
#: kept. Holds the true one in 98 to 100 % of simulated series (levels 2 to 6 % apart, points that
#: vary by 1 %, 30 before and 5 or 30 after).
_LIKELY: Final = 7.35


def split_range(values: Sequence[float]) -> tuple[int, int]:
    """Return the first and the last index at which the new level may begin.

    ``values`` are two levels of one point at least each, with noise of equal size on both.
    """
    logs = np.log(np.asarray(values, dtype=float))
    count = len(logs)
    squares = np.array([_within(logs[:k]) + _within(logs[k:]) for k in range(1, count)])
    # Without noise there is one split, and nothing to divide by
    least = max(float(squares.min()), np.finfo(float).tiny)
    likely = count * np.log(np.maximum(squares, least) / least) < _LIKELY
    indices = np.flatnonzero(likely) + 1
    return int(indices[0]), int(indices[-1])


def _within(logs: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    return float(((logs - logs.mean()) ** 2).sum())


# Where a series changes its level, as Apache Otava finds it: the one module that calls it.
#
# Its functions are no public interface, hence the pinned version and
# ``tests/history/test_change_points.py``. The candidate is the best split there is, and only then
# tested: its p is no rate of false alarms. Of series without a change, of 20 to 40 points that
# vary by 1 %, 0 to 3 % had one with these bounds.

#: Points that are looked at at once.
_WINDOW: Final = 30
#: Bounds of the test beside a split, and of the share by which the levels differ.
P_MAX: Final = 0.001
SHARE_MIN: Final = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """A new level begins at ``index``."""

    index: int
    p: float


def change_points(values: Sequence[float], *, share_min: float = SHARE_MIN) -> tuple[Split, ...]:
    """Return the splits of a series, oldest first.

    ``share_min`` is the smallest share by which levels must differ. Raises ``UsageError`` where
    Otava is not installed.
    """
    try:
        from otava.analysis import compute_change_points
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{error.name} is not installed, so that nothing finds the changes of a series; "
            "pip install 'pytest-dlperf[history]'"
        ) from error
    points, _ = compute_change_points(
        list(values), window_len=_WINDOW, max_pvalue=P_MAX, min_magnitude=share_min
    )
    splits = [Split(index=int(point.index), p=float(point.stats.pvalue)) for point in points]
    return tuple(sorted(splits, key=lambda split: split.index))


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
        _change(
            series, points[start:stop], values[start:stop], replace(split, index=index - start)
        )
        for split, start, index, stop in zip(
            splits, borders, borders[1:], borders[2:], strict=False
        )
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
        software=differences(
            stored_software(connection, series.case_id, change.last_before),
            stored_software(connection, series.case_id, change.first_after),
        ),
        canary=dict(_canary_changes(old, new)),
    )


def _canary_changes(
    before: Sequence[Outcome], after: Sequence[Outcome]
) -> Iterator[tuple[str, float]]:
    old, new = _canary(before), _canary(after)
    for name in sorted({*old} & {*new}):
        level = statistics.median(old[name])
        if level > 0:
            yield name, statistics.median(new[name]) / level - 1


def _canary(outcomes: Sequence[Outcome]) -> dict[str, list[float]]:
    rates: dict[str, list[float]] = {}
    for outcome in outcomes:
        for run in outcome.measurement.runs if outcome.measurement else ():
            for name, rate in run.canary.items():
                rates.setdefault(name, []).append(rate)
    return rates
