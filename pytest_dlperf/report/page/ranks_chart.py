"""Charts of the ranks of a case: peak memory, and how much they differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.scaling import CPU_SECONDS
from pytest_dlperf.report import figures
from pytest_dlperf.report.page.figure import Drawn
from pytest_dlperf.report.page.table import Column, TableRow, cell, number, table
from pytest_dlperf.report.scaling import rank_skews

_HEIGHT: Final = 160
_MIB: Final = 2**20


def memory_chart(outcome: Outcome) -> Drawn | None:
    """Return the peak memory of each of several ranks; None where it is not known."""
    peaks: dict[int, int] = {}
    nodes = _nodes(outcome)
    for run in outcome.measurement.runs if outcome.measurement else ():
        for rank in run.ranks:
            if rank.peak_memory_bytes is not None:
                peaks[rank.rank] = max(peaks.get(rank.rank, 0), rank.peak_memory_bytes)
    if len(peaks) < 2:
        return None
    comparison = outcome.judgement.metrics.get("peak_memory")
    before = None if comparison is None else comparison.before
    told = "The largest peak of each rank over the runs."
    if before is not None:
        told += f" The dashed line is the largest rank's before, {figures.memory(before)}."
    values = {rank: peak / _MIB for rank, peak in sorted(peaks.items())}
    line = None if before is None else before / _MIB
    return Drawn(
        spec=_bars(values, nodes, "MiB", f"Peak memory of the ranks of {outcome.case.id}", line),
        caption=told,
        numbers=_numbers(
            "Peak memory",
            "MiB",
            nodes,
            {rank: (f"{value:.0f}", value) for rank, value in values.items()},
        ),
    )


def skew_chart(outcome: Outcome) -> Drawn | None:
    """Return how far each rank's own time is above the others'; None where it is not known."""
    found = rank_skews(outcome)
    if found is None:
        return None
    nodes = _nodes(outcome)
    basis = (
        "the CPU seconds of the window"
        if found.basis == CPU_SECONDS
        else "iterations in which a rank waits for no other"
    )
    values = {rank: 100 * above for rank, above in found.above.items()}
    title = "% above the others"
    return Drawn(
        spec=_bars(values, nodes, title, f"Skew of the ranks of {outcome.case.id}", None),
        caption=f"What a rank does itself against the median of the others: {basis}; medians "
        "over the runs. A rank far above the others makes all of them wait.",
        numbers=_numbers(
            "Skew",
            title,
            nodes,
            {rank: (figures.percent(above), above) for rank, above in found.above.items()},
        ),
    )


def _nodes(outcome: Outcome) -> dict[int, str]:
    runs = outcome.measurement.runs if outcome.measurement else ()
    return {rank.rank: rank.node for run in runs for rank in run.ranks}


def _bars(
    values: Mapping[int, float],
    nodes: Mapping[int, str],
    title: str,
    description: str,
    line: float | None,
) -> dict[str, Any]:
    several = len(set(nodes.values())) > 1
    encoding: dict[str, Any] = {
        "x": {
            "field": "rank",
            "type": "ordinal",
            "axis": {"title": "rank", "labelAngle": 0, "grid": False},
        },
        "y": {
            "field": "value",
            "type": "quantitative",
            "axis": {"title": title, "tickCount": 4, "format": ".5~r"},
        },
        "tooltip": [
            {"field": "rank", "title": "rank"},
            {"field": "node", "title": "node"},
            {"field": "value", "title": title, "type": "quantitative", "format": ".4~g"},
        ],
    }
    mark: dict[str, Any] = {"type": "bar", "width": {"band": 0.6}}
    if several:
        encoding["color"] = {"field": "node", "type": "nominal", "legend": {"title": None}}
    else:
        mark["style"] = "now"
    layers: list[dict[str, Any]] = [
        {
            "data": {
                "values": [
                    {"rank": rank, "value": float(f"{value:.5g}"), "node": nodes.get(rank, "")}
                    for rank, value in values.items()
                ]
            },
            "mark": mark,
            "encoding": encoding,
        }
    ]
    if line is not None:
        layers.append(
            {
                "data": {"values": [{"value": line}]},
                "mark": {"type": "rule", "style": "ideal"},
                "encoding": {"y": {"field": "value", "type": "quantitative"}},
            }
        )
    return {"description": description, "height": _HEIGHT, "layer": layers}


def _numbers(
    caption: str, title: str, nodes: Mapping[int, str], shown: Mapping[int, tuple[str, float]]
) -> Any:
    columns = [
        Column(heading="rank"),
        Column(heading="node"),
        Column(heading=title, kind="number"),
    ]
    return table(
        caption,
        columns,
        [
            TableRow(cells=(cell(str(rank)), cell(nodes.get(rank, "")), number(*told)))
            for rank, told in shown.items()
        ],
    )
