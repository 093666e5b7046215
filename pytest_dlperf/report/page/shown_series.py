"""The series of a history as its pages show them, those to look at first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pytest_dlperf.core.command_results import (
    Acknowledged,
    Change,
    JudgedPoint,
    Point,
    Series,
    changes_within,
)
from pytest_dlperf.report.page.verdicts import urgency

#: Of ASCII: times whose letters are counted from it sort the other way round.
_LAST_LETTER: Final = 0x7F


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownSeries:
    """A series with what is known of it."""

    series: Series
    changes: tuple[Change, ...] = ()
    acknowledged: tuple[Acknowledged, ...] = ()
    #: By the number of the outcome; those of all series. So are the links to sessions.
    judged: Mapping[int, JudgedPoint] = field(default_factory=dict)
    links: Mapping[int, str] = field(default_factory=dict)
    #: Keys of the series without a measurement whose outcomes are among the points.
    unmeasured_keys: tuple[str, ...] = ()

    @property
    def anchor(self) -> str:
        """The id of its section, the same in every page that has the series."""
        return anchor_of(self.series.key)

    @property
    def newest(self) -> Point:
        """The outcome that came last, whether it counts or not."""
        return self.series.points[-1]

    @property
    def rate(self) -> float | None:
        """The newest rate that counts for the level, of none the newest."""
        points = self.series.level_points or self.series.points
        rates = (point.throughput for point in reversed(points))
        return next((rate for rate in rates if rate is not None), None)

    @property
    def last_change(self) -> Change | None:
        """The newest change of its level."""
        return self.changes[-1] if self.changes else None

    @property
    def open_slowdown(self) -> Change | None:
        """The newest change of its level, where it is for the worse and nobody accepted it."""
        last = self.last_change
        is_open = last is not None and last.change < 0 and self.accepted(last) is None
        return last if is_open else None

    def accepted(self, change: Change) -> Acknowledged | None:
        """Return who accepted the level of ``change``, before there was another."""
        later = [
            later_change.time for later_change in self.changes if later_change.time > change.time
        ]
        until = min(later, default="~")  # behind every time
        fits = (level for level in self.acknowledged if change.time <= level.time < until)
        return next(fits, None)


def anchor_of(key: str) -> str:
    """Return the id of the section of a series by its key."""
    return f"series-{key[:10]}"


def shown_series(
    series: Iterable[Series],
    changes: Sequence[Change],
    *,
    judged: Iterable[JudgedPoint] = (),
    acknowledged: Iterable[Acknowledged] = (),
    links: Mapping[int, str] | None = None,
) -> list[ShownSeries]:
    """Return the series with what is known of each, those that someone must look at first.

    What was not measured has no conditions, and so a series of its own: its outcomes are shown
    with the series that was measured last at the same place.
    """
    by_number = {point.number: point for point in judged}
    levels: dict[tuple[str, str], list[Acknowledged]] = {}
    for level in acknowledged:
        levels.setdefault((level.case_id, level.machine_class), []).append(level)
    shown = [
        ShownSeries(
            series=whole,
            changes=changes_within(whole, changes),
            acknowledged=tuple(levels.get((whole.case_id, whole.machine_class), ())),
            judged=by_number,
            links=links or {},
            unmeasured_keys=keys,
        )
        for whole, keys in _with_unmeasured(series)
    ]
    return sorted(shown, key=_order)


def _order(shown: ShownSeries) -> tuple[int, bool, str, str]:
    """Order by the newest verdict, then open slowdowns, the newest first, then by name."""
    slowdown = shown.open_slowdown
    when = "" if slowdown is None else slowdown.time
    newest_first = "".join(chr(_LAST_LETTER - ord(letter)) for letter in when)
    return urgency(shown.newest.verdict), slowdown is None, newest_first, shown.series.case_id


def _with_unmeasured(series: Iterable[Series]) -> Iterator[tuple[Series, tuple[str, ...]]]:
    """Yield each series with the outcomes that could not be measured, and the keys of these."""
    by_case: dict[str, list[Series]] = {}
    for entry in series:
        by_case.setdefault(entry.case_id, []).append(entry)
    for entries in by_case.values():
        measured = [entry for entry in entries if _is_measured(entry)]
        failures: dict[str, list[Series]] = {entry.key: [] for entry in measured}
        for entry in entries:
            if _is_measured(entry):
                continue
            near = [neighbour for neighbour in measured if _may_share_a_place(entry, neighbour)]
            if near:
                last = max(near, key=lambda neighbour: neighbour.points[-1].time)
                failures[last.key].append(entry)
            else:
                yield entry, ()
        for entry in measured:
            yield _merged(entry, failures[entry.key])


def _merged(measured: Series, failures: Sequence[Series]) -> tuple[Series, tuple[str, ...]]:
    points = (*measured.points, *(point for failure in failures for point in failure.points))
    in_time = tuple(sorted(points, key=lambda point: (point.time, point.number)))
    return replace(measured, points=in_time), tuple(failure.key for failure in failures)


def _is_measured(series: Series) -> bool:
    return any(point.throughput is not None for point in series.points)


def _may_share_a_place(unmeasured: Series, measured: Series) -> bool:
    """Return whether both are of one place, as far as the one that was not measured says it."""
    nodes = set(filter(None, unmeasured.node.split(",")))
    return unmeasured.machine_class in {"", measured.machine_class} and (
        not nodes or not nodes.isdisjoint(measured.node.split(","))
    )
