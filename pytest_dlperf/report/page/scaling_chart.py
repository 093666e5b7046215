"""The chart of throughput over devices, for cases that differ by layout alone."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.report import figures
from pytest_dlperf.report.compared_cell import counts
from pytest_dlperf.report.page.figure import Drawn
from pytest_dlperf.report.page.table import Column, TableRow, cell, number, table

_HEIGHT: Final = 240
#: Where device counts differ so many times, both axes are logarithmic.
_LOG_FROM: Final = 16


class _Point(NamedTuple):
    devices: int
    layout: str
    rate: float
    before: float | None


def curve_name(outcome: Outcome) -> str:
    """Return what the cases of one curve have in common; CPUs and GPUs are apart."""
    return f"{outcome.case.id_without_layout} {outcome.case.layout.device}"


def scaling_charts(outcomes: Iterable[Outcome]) -> dict[str, Drawn]:
    """Return the curves of cases in two layouts or more, by ``curve_name``."""
    by_curve: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if counts(outcome):
            by_curve.setdefault(curve_name(outcome), []).append(outcome)
    curves = {name: _points(found) for name, found in by_curve.items()}
    return {
        name: _drawn(by_curve[name][0], points)
        for name, points in curves.items()
        if len(points) > 1
    }


def _points(outcomes: Sequence[Outcome]) -> list[_Point]:
    points: dict[str, _Point] = {}
    for outcome in outcomes:
        measurement, parent = outcome.measurement, outcome.case.parent()
        if measurement is None:
            continue
        if parent is not None and measurement.parent_throughputs:
            rate = statistics.median(measurement.parent_throughputs)
            layout = str(parent.layout)
            points.setdefault(layout, _Point(parent.world_size, layout, rate, None))
    for outcome in outcomes:
        rate_now = outcome.judged_throughput
        if rate_now is not None:
            layout = str(outcome.case.layout)
            before = outcome.judgement.throughput.before
            points[layout] = _Point(outcome.case.world_size, layout, rate_now, before)
    return sorted(points.values())


def _drawn(outcome: Outcome, points: Sequence[_Point]) -> Drawn:
    first, last = points[0], points[-1]
    assert outcome.measurement is not None
    unit = f"{outcome.measurement.unit}/s"
    told = (
        f"{outcome.case.id_without_layout}: throughput over devices. Dashed: "
        f"{first.layout} times the number of devices. {last.layout} reaches "
        f"{figures.percent(_efficiency(last, first), sign=False)} of it."
    )
    if any(point.before is not None for point in points):
        told += " Blue: now; grey: before."
    return Drawn(
        spec=_spec(outcome.case.id_without_layout, points, unit),
        caption=told,
        numbers=_numbers(points, unit),
    )


def _efficiency(point: _Point, first: _Point) -> float:
    return point.rate / point.devices / (first.rate / first.devices)


def _spec(name: str, points: Sequence[_Point], unit: str) -> dict[str, Any]:
    first, last = points[0], points[-1]
    wide = last.devices >= _LOG_FROM * first.devices
    x = {
        "field": "devices",
        "type": "quantitative",
        "scale": {"type": "log", "base": 2, "nice": False} if wide else {"zero": True},
        "axis": {
            "title": "devices",
            "values": sorted({point.devices for point in points}),
            "format": "d",
            "grid": False,
        },
    }
    y = {
        "field": "rate",
        "type": "quantitative",
        "scale": {"type": "log", "nice": False} if wide else {"zero": True},
        "axis": {"title": unit, "tickCount": 5, "format": "~s", "grid": not wide},
    }
    encoding = {
        "x": x,
        "y": y,
        "tooltip": [
            {"field": "layout", "title": "layout"},
            {"field": "rate", "title": unit, "type": "quantitative", "format": ".5~g"},
        ],
    }
    ideal = [
        {"devices": devices, "rate": first.rate / first.devices * devices}
        for devices in (first.devices, last.devices)
    ]
    before = [
        {"devices": p.devices, "rate": p.before, "layout": f"{p.layout}, before"}
        for p in points
        if p.before is not None
    ]
    now = [{"devices": p.devices, "rate": p.rate, "layout": p.layout} for p in points]
    return {
        "description": f"Throughput of {name} over the number of devices, in {unit}",
        "height": _HEIGHT,
        "layer": [
            {
                "data": {"values": ideal},
                "mark": {"type": "line", "style": "ideal"},
                "encoding": {"x": x, "y": y},
            },
            *_line(before, "baseline", encoding),
            *_line(now, "now", encoding),
        ],
    }


def _line(
    values: Sequence[dict[str, Any]], arm: str, encoding: dict[str, Any]
) -> list[dict[str, Any]]:
    if not values:
        return []
    line = {"type": "line", "style": f"{arm}-line"}
    point = {"type": "point", "filled": True, "size": 50, "style": arm}
    return [
        {"data": {"values": list(values)}, "mark": mark, "encoding": encoding}
        for mark in (line, point)
    ]


def _numbers(points: Sequence[_Point], unit: str) -> Any:
    columns = [
        Column(heading="layout"),
        Column(heading="devices", kind="number"),
        Column(heading=f"{unit} now", kind="number"),
        Column(heading="before", kind="number"),
        Column(heading="speedup", kind="number"),
        Column(heading="of the ideal", kind="number"),
    ]
    first = points[0]
    return table(
        "Throughput over devices",
        columns,
        [
            TableRow(
                cells=(
                    cell(point.layout),
                    number(str(point.devices), point.devices),
                    number(figures.rate(point.rate), point.rate),
                    number(figures.rate(point.before), point.before),
                    number(f"{point.rate / first.rate:.2f}", None),
                    number(figures.percent(_efficiency(point, first), sign=False), None),
                )
            )
            for point in points
        ],
    )
