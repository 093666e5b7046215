"""The chart of a case over commits: every outcome, the levels, and where they changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pytest_dlperf.core.command_results import Change, Point, Series
from pytest_dlperf.core.measurement import short_commit
from pytest_dlperf.report import figures
from pytest_dlperf.report.history_text import commit_range
from pytest_dlperf.report.page.chart import END, START, Axis, Chart, Layer, Mark, Shape, places
from pytest_dlperf.report.page.markup import Html
from pytest_dlperf.report.page.svg import Drawn
from pytest_dlperf.report.page.table import Column, TableRow, cell, number, table

_HEIGHT: Final = 240
_WIDTH: Final = 960
#: Hollow where they do not count, and behind the others.
_STYLES: Final[tuple[tuple[Shape, str, bool], ...]] = (
    ("ring", "baseline", True),
    ("dot", "now", False),
)
#: Of a longer series the newest outcomes are drawn, where nothing else is said.
POINTS_MAX: Final = 400
_COLUMNS: Final = (
    Column(heading="time"),
    Column(heading="commit"),
    Column(heading="rate", kind="number"),
    Column(heading="verdict"),
    Column(heading="remarks"),
)


def series_chart(
    series: Series, changes: Sequence[Change], *, points_max: int = POINTS_MAX
) -> Drawn | None:
    """Return the chart of a series with its own ``changes``; None where nothing was measured.

    Of more than ``points_max`` outcomes the newest are drawn.
    """
    points = [point for point in series.points if point.throughput is not None][-points_max:]
    if not points:
        return None
    return Drawn(
        chart=_chart(series, points, changes),
        caption=_caption(series, points, changes),
        numbers=_numbers(series, points),
    )


def remarks(point: Point) -> str:
    """Return what is odd or new about an outcome, in words."""
    notes = [point.cause] if point.cause else []
    notes += [point.left_out] if point.left_out else []
    notes += [f"against {point.against}"] if point.against else []
    notes += [point.confirmed] if point.confirmed else []
    return "; ".join([*notes, *point.software_changes])


def _chart(series: Series, points: Sequence[Point], changes: Sequence[Change]) -> Chart:
    place_of = {point.number: place for place, point in enumerate(points)}
    # Between the last outcome of the one level and the first of the other
    drawn = [
        (place_of[change.number] - 0.5, change) for change in changes if change.number in place_of
    ]
    layers: list[Layer] = []
    if changes:
        levels = tuple(_levels(points, changes, drawn))
        layers.append(Layer(shape="rule", style="ideal", marks=levels))
    if drawn:
        marks = tuple(Mark(place, START, y2=END, hover=_change(change)) for place, change in drawn)
        layers.append(Layer(shape="rule", style="mark", marks=marks))
    for shape, style, is_left_out in _STYLES:
        some = tuple(
            Mark(place_of[point.number], point.throughput, hover=_hover_text(series, point))
            for point in points
            if point.throughput is not None and bool(point.left_out) == is_left_out
        )
        if some:
            layers.append(Layer(shape=shape, style=style, marks=some))
    low, high = _span(points)
    return Chart(
        description=f"Throughput of {series.case_id} by commit, in order of time",
        x=places(_commits(points), "commit, in order of time"),
        y=Axis(title=f"{series.unit}/s", low=low, high=high),
        layers=tuple(layers),
        height=_HEIGHT,
        width=_WIDTH,
    )


def _span(points: Sequence[Point]) -> tuple[float | None, float | None]:
    """Return an axis for the points that count: a disturbed one may be far off."""
    rates = [point.throughput for point in points if point.throughput and not point.left_out]
    if not rates:
        return None, None
    low, high = min(rates), max(rates)
    margin = 0.25 * (high - low) or 0.05 * high
    return low - margin, high + margin


def _hover_text(series: Series, point: Point) -> str:
    words = (
        point.time,
        short_commit(point.commit),
        f"{figures.rate(point.throughput)} {series.unit}/s",
        point.verdict,
        remarks(point),
    )
    return ", ".join(filter(None, words))


def _change(change: Change) -> str:
    words = (figures.percent(change.change), commit_range(change), "; ".join(change.software))
    return ", ".join(filter(None, words))


def _levels(
    points: Sequence[Point], changes: Sequence[Change], drawn: Sequence[tuple[float, Change]]
) -> Iterator[Mark]:
    """Yield each level that is drawn, from where to where."""
    borders = [-0.5, *(place for place, _ in drawn), len(points) - 0.5]
    first = drawn[0][1].before if drawn else changes[-1].after
    rates = [first, *(change.after for _, change in drawn)]
    for begin, end, rate in zip(borders[:-1], borders[1:], rates, strict=True):
        yield Mark(begin, rate, x2=end, hover=f"level {figures.rate(rate)}")


def _commits(points: Sequence[Point]) -> list[str]:
    """Return the label of each place: the commit where it is another than the one before."""
    commits = [short_commit(point.commit) or "no commit" for point in points]
    return ["" if i and commit == commits[i - 1] else commit for i, commit in enumerate(commits)]


def _caption(series: Series, points: Sequence[Point], changes: Sequence[Change]) -> str:
    caption = f"{figures.counted(len(points), 'outcome')}, {points[0].time} to {points[-1].time}"
    hidden = sum(point.throughput is not None for point in series.points) - len(points)
    caption += f", the newest of {len(points) + hidden}" if hidden else ""
    if any(point.left_out for point in points):
        caption += (
            "; hollow: not used for levels (injected, disturbed, modified files), drawn at "
            "the edge where they are outside it"
        )
    if changes:
        caption += "; dashed: the levels; upright lines: where they changed"
    return f"{caption}."


def _numbers(series: Series, points: Sequence[Point]) -> Html:
    rows = [
        TableRow(
            cells=(
                cell(point.time),
                cell(short_commit(point.commit)),
                number(figures.rate(point.throughput), point.throughput),
                cell(point.verdict),
                cell(remarks(point)),
            )
        )
        for point in points
    ]
    return table(f"{series.case_id}, {series.unit}/s", _COLUMNS, rows)
