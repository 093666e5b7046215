"""The chart of the runs of a case, with those of the baseline or of the other arm."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from pytest_dlperf.core.baseline import level_of
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.report import figures
from pytest_dlperf.report.page.figure import Drawn
from pytest_dlperf.report.page.markup import text
from pytest_dlperf.report.page.table import Column, TableRow, cell, number, table

_HEIGHT: Final = 220
#: Of more stored sessions only the last ones are drawn.
_SESSIONS_MAX: Final = 24
_NOW: Final = "now"


class _Group(NamedTuple):
    """Runs drawn in one column; ``arm`` is their style."""

    name: str
    label: str
    arm: str
    rates: tuple[float, ...]


def runs_chart(outcome: Outcome) -> Drawn | None:
    """Return the chart of all runs; None where nothing was measured."""
    if outcome.measurement is None:
        return None
    paired = outcome.against is not None and outcome.against.measurement is not None
    groups = _pairs(outcome) if paired else _sessions(outcome)
    unit = f"{outcome.measurement.unit}/s"
    return Drawn(
        spec=_spec(outcome, groups, unit, paired=paired),
        caption=_caption(outcome, groups, paired=paired),
        numbers=_numbers(groups, unit),
    )


def _sessions(outcome: Outcome) -> list[_Group]:
    assert outcome.measurement is not None
    stored = outcome.baseline_sessions[-_SESSIONS_MAX:]
    before = [
        _Group(
            session.time.replace("T", " ").removesuffix("Z") or "published",
            session.time[5:10] or "published",
            "baseline",
            session.runs,
        )
        for session in stored
    ]
    return [*before, _Group(_NOW, _NOW, "now", outcome.measurement.throughputs)]


def _pairs(outcome: Outcome) -> list[_Group]:
    assert outcome.measurement is not None
    assert outcome.against is not None
    assert outcome.against.measurement is not None
    theirs = outcome.against.measurement.throughputs
    pairs = zip(theirs, outcome.measurement.throughputs, strict=False)
    groups = []
    for index, (before, now) in enumerate(pairs, 1):
        groups.append(
            _Group(f"pair {index}, {outcome.against.name}", f"{index}", "baseline", (before,))
        )
        groups.append(
            _Group(f"pair {index}, {outcome.against.now or _NOW}", f"{index}", "now", (now,))
        )
    return groups


def _spec(
    outcome: Outcome, groups: Sequence[_Group], unit: str, *, paired: bool
) -> dict[str, Any]:
    # Labels need not differ (two sessions of one day), what they stand for must.
    places: dict[int, str] = {}
    for index, group in enumerate(groups):
        place = index // 2 if paired else index
        places[index] = f"{place}|{group.label}"
    interval = _interval(outcome)
    change = f"{len(groups)}|interval"
    domain = [*dict.fromkeys(places.values()), *([change] if interval else [])]
    x = {
        "field": "at",
        "type": "ordinal",
        "scale": {"domain": domain},
        "axis": {
            "title": "pair" if paired else "session",
            "labelExpr": "split(datum.label, '|')[1]",
            "labelAngle": 0,
            "grid": False,
        },
    }
    y = {
        "field": "rate",
        "type": "quantitative",
        "scale": {"zero": False},
        "axis": {"title": unit, "tickCount": 5, "format": ".5~r"},
    }
    layers: list[dict[str, Any]] = _level(outcome)
    for arm in ("baseline", "now"):
        chosen = [(places[i], group) for i, group in enumerate(groups) if group.arm == arm]
        layers.append(
            {
                "data": {
                    "values": [
                        {"at": at, "rate": rate, "run": run, "of": group.name}
                        for at, group in chosen
                        for run, rate in enumerate(group.rates, 1)
                    ]
                },
                "mark": {"type": "point", "filled": True, "size": 42, "style": arm},
                "encoding": {
                    "x": x,
                    "y": y,
                    "tooltip": [
                        {"field": "of", "title": "of"},
                        {"field": "run", "title": "run"},
                        {"field": "rate", "title": unit, "format": ".5~g"},
                    ],
                },
            }
        )
        if not paired:
            values = [{"at": at, "rate": statistics.median(g.rates)} for at, g in chosen]
            layers.append(
                {
                    "data": {"values": values},
                    "mark": {"type": "tick", "size": 26, "thickness": 2, "style": arm},
                    "encoding": {"x": x, "y": y},
                }
            )
    if interval:
        low, high = interval
        layers.append(
            {
                "data": {"values": [{"at": change, "low": low, "high": high}]},
                "mark": {"type": "rule", "strokeWidth": 4, "style": "interval"},
                "encoding": {
                    "x": x,
                    "y": {"field": "low", "type": "quantitative"},
                    "y2": {"field": "high"},
                },
            }
        )
    return {
        "description": f"Runs of {outcome.case.id}, in {unit}",
        "height": _HEIGHT,
        "layer": layers,
    }


def _level(outcome: Outcome) -> list[dict[str, Any]]:
    """Return the band of what is tolerated, and the line that changes are counted from."""
    comparison = outcome.judgement.throughput
    before, tolerance = comparison.before, comparison.tolerance
    if before is None:
        return []
    layers: list[dict[str, Any]] = []
    if tolerance:
        layers.append(
            {
                "data": {"values": [{"low": before * (1 - tolerance), "high": before}]},
                "mark": {"type": "rect", "style": "band"},
                "encoding": {
                    "y": {"field": "low", "type": "quantitative"},
                    "y2": {"field": "high"},
                },
            }
        )
    layers.append(
        {
            "data": {"values": [{"rate": before}]},
            "mark": {"type": "rule", "style": "ideal"},
            "encoding": {"y": {"field": "rate", "type": "quantitative"}},
        }
    )
    return layers


def _interval(outcome: Outcome) -> tuple[float, float] | None:
    comparison = outcome.judgement.throughput
    if comparison.before is None or comparison.interval is None:
        return None
    low, high = comparison.interval
    return comparison.before * (1 + low), comparison.before * (1 + high)


def _caption(outcome: Outcome, groups: Sequence[_Group], *, paired: bool) -> str:
    comparison = outcome.judgement.throughput
    if paired:
        assert outcome.against is not None
        now = outcome.against.now or "this environment"
        told = f"Each dot is a run: grey of {outcome.against.name}, blue of {now}, pair by pair."
    elif len(groups) > 1:
        told = "Each dot is a run, a dash the median of its session: grey stored, blue now."
        left_out = len(outcome.baseline_sessions) - _SESSIONS_MAX
        if left_out > 0:
            told += f" {left_out} older sessions are not drawn."
        aside = len(outcome.baseline_sessions) - len(level_of(outcome.baseline_sessions))
        if aside:
            told += f" {aside} of the stored sessions are set aside, and do not count."
    else:
        told = "Each dot is a run, the dash their median; nothing is stored to compare it with."
    if comparison.before is not None:
        told += f" The dashed line is the level before, {figures.rate(comparison.before)}"
        if comparison.tolerance:
            down = figures.percent(comparison.tolerance, sign=False)
            told += f"; the band below it is what is tolerated, {down}"
        told += "."
    if comparison.interval is not None:
        told += f" The bar is the 90 % interval of the change, {figures.interval(comparison)}."
    return told


def _numbers(groups: Sequence[_Group], unit: str) -> Any:
    columns = [
        Column(heading="of"),
        Column(heading=f"median {unit}", kind="number"),
        Column(heading="runs", kind="number"),
    ]
    rows = []
    for group in groups:
        median = statistics.median(group.rates) if group.rates else None
        listed = " ".join(figures.rate(rate) for rate in group.rates)
        rows.append(
            TableRow(cells=(cell(group.name), number(figures.rate(median), median), cell(listed)))
        )
    return table(text("Runs"), columns, rows)
