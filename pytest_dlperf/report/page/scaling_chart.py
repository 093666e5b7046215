"""The chart of throughput over devices, for cases that differ by layout alone."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.report import figures
from pytest_dlperf.report.compared_cell import counts
from pytest_dlperf.report.page.chart import Axis, Chart, Layer, Mark, Tick
from pytest_dlperf.report.page.markup import Html
from pytest_dlperf.report.page.svg import Drawn
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
    curves = {name: _points(of_curve) for name, of_curve in by_curve.items()}
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
    caption = (
        f"{outcome.case.id_without_layout}: throughput over devices. Dashed: "
        f"{first.layout} times the number of devices. {last.layout} reaches "
        f"{figures.percent(_efficiency(last, first), sign=False)} of it."
    )
    if any(point.before is not None for point in points):
        caption += " Blue: now; grey: before."
    return Drawn(
        chart=_chart(outcome.case.id_without_layout, points, unit),
        caption=caption,
        numbers=_numbers(points, unit),
    )


def _efficiency(point: _Point, first: _Point) -> float:
    return point.rate / point.devices / (first.rate / first.devices)


def _chart(name: str, points: Sequence[_Point], unit: str) -> Chart:
    first, last = points[0], points[-1]
    wide = last.devices >= _LOG_FROM * first.devices
    each = first.rate / first.devices
    counts = {point.devices: Tick(point.devices, str(point.devices)) for point in points}
    ideal = tuple(Mark(devices, each * devices) for devices in (first.devices, last.devices))
    before = tuple(
        Mark(p.devices, p.before, hover=f"{p.layout}, before: {figures.rate(p.before)} {unit}")
        for p in points
        if p.before is not None
    )
    now = tuple(
        Mark(p.devices, p.rate, hover=f"{p.layout}: {figures.rate(p.rate)} {unit}") for p in points
    )
    return Chart(
        description=f"Throughput of {name} over the number of devices, in {unit}",
        x=Axis(title="devices", zero=not wide, logarithmic=wide, ticks=tuple(counts.values())),
        y=Axis(title=unit, zero=not wide, logarithmic=wide),
        layers=(
            Layer(shape="line", style="ideal", marks=ideal),
            Layer(shape="line", style="baseline", marks=before),
            Layer(shape="dot", style="baseline", marks=before),
            Layer(shape="line", style="now", marks=now),
            Layer(shape="dot", style="now", marks=now),
        ),
        height=_HEIGHT,
    )


def _numbers(points: Sequence[_Point], unit: str) -> Html:
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
