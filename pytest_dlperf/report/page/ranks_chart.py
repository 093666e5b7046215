"""Charts of the ranks of a case: peak memory, and how much they differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.scaling import CPU_SECONDS
from pytest_dlperf.report import figures
from pytest_dlperf.report.page.chart import END, START, Axis, Chart, Layer, Mark, places
from pytest_dlperf.report.page.figure import Drawn
from pytest_dlperf.report.page.markup import Html
from pytest_dlperf.report.page.table import Column, TableRow, cell, number, table
from pytest_dlperf.report.scaling import rank_skews

_HEIGHT: Final = 160
#: Of the style sheet; more nodes have them again.
_COLOURS: Final = 7
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
        chart=_bars(values, nodes, "MiB", f"Peak memory of the ranks of {outcome.case.id}", line),
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
        chart=_bars(values, nodes, title, f"Skew of the ranks of {outcome.case.id}", None),
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
) -> Chart:
    names = list(dict.fromkeys(nodes.values()))
    styles = {name: f"series-{index % _COLOURS + 1}" for index, name in enumerate(names)}
    several = len(names) > 1
    layers = []
    for name in names if several else [""]:
        style = styles[name] if several else "now"
        bars = tuple(
            Mark(place, value, told=f"rank {rank}, {nodes.get(rank, '')}: {value:.4g} {title}")
            for place, (rank, value) in enumerate(values.items())
            if not several or nodes.get(rank) == name
        )
        layers.append(Layer(shape="bar", style=style, marks=bars))
    if line is not None:
        before = Mark(START, line, x2=END)
        layers.append(Layer(shape="rule", style="ideal", marks=(before,)))
    return Chart(
        description=description,
        x=places([str(rank) for rank in values], "rank"),
        y=Axis(title=title, zero=True),
        layers=tuple(layers),
        height=_HEIGHT,
        legend=tuple((style, name) for name, style in styles.items()) if several else (),
    )


def _numbers(
    caption: str, title: str, nodes: Mapping[int, str], shown: Mapping[int, tuple[str, float]]
) -> Html:
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
