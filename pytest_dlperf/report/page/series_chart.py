"""The series of a case over time: every outcome, the levels, and where they changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pytest_dlperf.report import figures
from pytest_dlperf.report.history_text import commit_range
from pytest_dlperf.report.page.figure import Drawn
from pytest_dlperf.report.page.table import Column, TableRow, cell, number, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_dlperf.core.history import Change, Point, Series
    from pytest_dlperf.report.page.markup import Html

_HEIGHT: Final = 240
#: Of a longer series the newest outcomes are drawn.
POINTS_MAX: Final = 400
_COMMIT: Final = 12
_TIME: Final = {"field": "time", "type": "temporal", "axis": {"title": None, "grid": False}}
_COLUMNS: Final = (
    Column(heading="time"),
    Column(heading="commit"),
    Column(heading="rate", kind="number"),
    Column(heading="verdict"),
    Column(heading="remarks"),
)


def series_chart(series: Series, changes: Sequence[Change]) -> Drawn | None:
    """Return the chart of a series with its own ``changes``; None where nothing was measured."""
    points = [point for point in series.points if point.throughput is not None][-POINTS_MAX:]
    if not points:
        return None
    return Drawn(
        spec=_spec(series, points, changes),
        caption=_caption(series, points, changes),
        numbers=_numbers(series, points),
    )


def remarks(point: Point) -> str:
    """Return what is odd or new about an outcome, in words."""
    told = [point.left_out] if point.left_out else []
    told += [f"against {point.against}"] if point.against else []
    return "; ".join([*told, *point.software_changes])


def _spec(series: Series, points: Sequence[Point], changes: Sequence[Change]) -> dict[str, Any]:
    rate: dict[str, Any] = {
        "field": "rate",
        "type": "quantitative",
        "scale": _scale(points),
        "axis": {"title": f"{series.unit}/s", "tickCount": 5},
    }
    layers: list[dict[str, Any]] = []
    if changes:
        layers.append(
            {
                "data": {"values": _levels(points, changes)},
                "mark": {"type": "rule", "style": "ideal"},
                "encoding": {"x": _TIME, "x2": {"field": "until"}, "y": rate},
            }
        )
        layers.append(
            {
                "data": {"values": [_marked(change) for change in changes]},
                "mark": {"type": "rule", "style": "mark", "strokeWidth": 2},
                "encoding": {
                    "x": _TIME,
                    "tooltip": [_told("change"), _told("commits"), _told("software")],
                },
            }
        )
    tooltip = [_told(name) for name in ("at", "commit", "shown", "verdict", "remarks")]
    for style, some in (
        ("baseline", [point for point in points if point.left_out]),
        ("now", [point for point in points if not point.left_out]),
    ):
        if some:
            layers.append(
                {
                    "data": {"values": [_drawn(series, point) for point in some]},
                    "mark": {"type": "point", "style": style, "filled": style == "now"},
                    "encoding": {"x": _TIME, "y": rate, "tooltip": tooltip},
                }
            )
    return {
        "description": f"Throughput of {series.case_id} over time",
        "height": _HEIGHT,
        "layer": layers,
    }


def _scale(points: Sequence[Point]) -> dict[str, Any]:
    """Return an axis for the points that tell a level: a disturbed one may lie far off."""
    rates = [point.throughput for point in points if point.throughput and not point.left_out]
    if not rates:
        return {"zero": False}
    low, high = min(rates), max(rates)
    margin = 0.25 * (high - low) or 0.05 * high
    return {"domain": [low - margin, high + margin], "zero": False, "nice": True, "clamp": True}


def _told(name: str) -> dict[str, str]:
    return {"field": name, "type": "nominal", "title": "rate" if name == "shown" else name}


def _drawn(series: Series, point: Point) -> dict[str, Any]:
    assert point.throughput is not None
    return {
        "time": point.time,
        "at": point.time,
        "rate": float(f"{point.throughput:.6g}"),
        "shown": f"{figures.rate(point.throughput)} {series.unit}/s",
        "commit": point.commit[:_COMMIT],
        "verdict": point.verdict,
        "remarks": remarks(point),
    }


def _levels(points: Sequence[Point], changes: Sequence[Change]) -> list[dict[str, Any]]:
    """Return the level before each change, and that after the last, from when to when."""
    begins = [min(points[0].time, changes[0].time), *(change.time for change in changes)]
    ends = [*(change.time for change in changes), max(points[-1].time, changes[-1].time)]
    rates = [*(change.before for change in changes), changes[-1].after]
    return [
        {"time": max(begin, points[0].time), "until": end, "rate": float(f"{rate:.6g}")}
        for begin, end, rate in zip(begins, ends, rates, strict=True)
        if end >= points[0].time
    ]


def _marked(change: Change) -> dict[str, str]:
    return {
        "time": change.time,
        "change": figures.percent(change.change),
        "commits": commit_range(change),
        "software": "; ".join(change.software),
    }


def _caption(series: Series, points: Sequence[Point], changes: Sequence[Change]) -> str:
    told = f"{len(points)} outcomes"
    hidden = sum(point.throughput is not None for point in series.points) - len(points)
    told += f", the newest of {len(points) + hidden}" if hidden else ""
    if any(point.left_out for point in points):
        told += (
            "; hollow: those that tell no level (injected, disturbed, modified files), at "
            "the edge where they lie beyond it"
        )
    if changes:
        told += "; dashed: the levels; upright lines: where they changed"
    return f"{told}."


def _numbers(series: Series, points: Sequence[Point]) -> Html:
    rows = [
        TableRow(
            cells=(
                cell(point.time),
                cell(point.commit[:_COMMIT]),
                number(figures.rate(point.throughput), point.throughput),
                cell(point.verdict),
                cell(remarks(point)),
            )
        )
        for point in points
    ]
    return table(f"{series.case_id}, {series.unit}/s", _COLUMNS, rows)
