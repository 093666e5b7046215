"""The chart of a case over commits: every outcome, the levels, and where they changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from pytest_dlperf.core.environment import short_commit
from pytest_dlperf.core.history import Change, Point, Series
from pytest_dlperf.report import figures
from pytest_dlperf.report.history_text import commit_range
from pytest_dlperf.report.page.figure import Drawn
from pytest_dlperf.report.page.markup import Html
from pytest_dlperf.report.page.table import Column, TableRow, cell, number, table

_HEIGHT: Final = 240
#: Of a longer series the newest outcomes are drawn.
POINTS_MAX: Final = 400
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
    places = {point.number: place for place, point in enumerate(points)}
    commits = _commits(points)
    # Between the last outcome of the one level and the first of the other
    drawn = [(places[one.number] - 0.5, one) for one in changes if one.number in places]
    layers: list[dict[str, Any]] = []
    if changes:
        layers.append(
            {
                "data": {"values": _levels(points, changes, drawn)},
                "mark": {"type": "rule", "style": "ideal"},
                "encoding": {"x": commits, "x2": {"field": "until"}, "y": rate},
            }
        )
    if drawn:
        layers.append(
            {
                "data": {"values": [_marked(*one) for one in drawn]},
                "mark": {"type": "rule", "style": "mark", "strokeWidth": 2},
                "encoding": {
                    "x": commits,
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
                    "data": {
                        "values": [_drawn(series, point, places[point.number]) for point in some]
                    },
                    "mark": {"type": "point", "style": style, "filled": style == "now"},
                    "encoding": {"x": commits, "y": rate, "tooltip": tooltip},
                }
            )
    return {
        "description": f"Throughput of {series.case_id} by commit, in order of time",
        "height": _HEIGHT,
        "layer": layers,
    }


def _scale(points: Sequence[Point]) -> dict[str, Any]:
    """Return an axis for the points that count: a disturbed one may be far off."""
    rates = [point.throughput for point in points if point.throughput and not point.left_out]
    if not rates:
        return {"zero": False}
    low, high = min(rates), max(rates)
    margin = 0.25 * (high - low) or 0.05 * high
    return {"domain": [low - margin, high + margin], "zero": False, "nice": True, "clamp": True}


def _told(name: str) -> dict[str, str]:
    return {"field": name, "type": "nominal", "title": "rate" if name == "shown" else name}


def _drawn(series: Series, point: Point, place: int) -> dict[str, Any]:
    assert point.throughput is not None
    return {
        "place": place,
        "at": point.time,
        "rate": float(f"{point.throughput:.6g}"),
        "shown": f"{figures.rate(point.throughput)} {series.unit}/s",
        "commit": short_commit(point.commit),
        "verdict": point.verdict,
        "remarks": remarks(point),
    }


def _levels(
    points: Sequence[Point], changes: Sequence[Change], drawn: Sequence[tuple[float, Change]]
) -> list[dict[str, Any]]:
    """Return each level that is drawn, from where to where."""
    borders = [-0.5, *(place for place, _ in drawn), len(points) - 0.5]
    first = drawn[0][1].before if drawn else changes[-1].after
    rates = [first, *(change.after for _, change in drawn)]
    return [
        {"place": begin, "until": end, "rate": float(f"{rate:.6g}")}
        for begin, end, rate in zip(borders[:-1], borders[1:], rates, strict=True)
    ]


def _marked(place: float, change: Change) -> dict[str, Any]:
    return {
        "place": place,
        "change": figures.percent(change.change),
        "commits": commit_range(change),
        "software": "; ".join(change.software),
    }


def _commits(points: Sequence[Point]) -> dict[str, Any]:
    """Return the axis: a place an outcome, in order of time, and a tick at each new commit."""
    commits = [short_commit(point.commit) or "no commit" for point in points]
    first = [i for i, commit in enumerate(commits) if i == 0 or commit != commits[i - 1]]
    return {
        "field": "place",
        "type": "quantitative",
        "scale": {"domain": [-0.5, len(points) - 0.5], "nice": False, "zero": False},
        "axis": {
            "title": "commit, in order of time",
            "grid": False,
            "values": first,
            # As JSON: a commit is what a results file says
            "labelExpr": f"{json.dumps(commits)}[datum.value]",
            "labelOverlap": "greedy",
            "labelSeparation": 8,
            "labelBound": True,
        },
    }


def _caption(series: Series, points: Sequence[Point], changes: Sequence[Change]) -> str:
    told = f"{figures.counted(len(points), 'outcome')}, {points[0].time} to {points[-1].time}"
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
                cell(short_commit(point.commit)),
                number(figures.rate(point.throughput), point.throughput),
                cell(point.verdict),
                cell(remarks(point)),
            )
        )
        for point in points
    ]
    return table(f"{series.case_id}, {series.unit}/s", _COLUMNS, rows)
