"""The charts of a case's runs and ranks, with those of the baseline or of the other arm."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from pytest_dlperf.core.baseline import level_of
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.run import CPU_SECONDS
from pytest_dlperf.report import figures
from pytest_dlperf.report.page.chart import END, START, Axis, Chart, Layer, Mark, places
from pytest_dlperf.report.page.level import Stretch, level_layers
from pytest_dlperf.report.page.markup import Html
from pytest_dlperf.report.page.svg import Drawn
from pytest_dlperf.report.page.table import Column, TableRow, cell, number, table
from pytest_dlperf.report.scaling import rank_skews

_RUNS_HEIGHT: Final = 220
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
        chart=_chart(outcome, groups, unit, paired=paired),
        caption=_caption(outcome, groups, paired=paired),
        numbers=_runs_numbers(groups, unit),
    )


def _sessions(outcome: Outcome) -> list[_Group]:
    assert outcome.measurement is not None
    stored = outcome.baseline_sessions[-_SESSIONS_MAX:]
    before = [
        _Group(
            figures.utc(session.time) or "published",
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
    before_rates = outcome.against.measurement.throughputs
    pairs = zip(before_rates, outcome.measurement.throughputs, strict=False)
    groups = []
    for index, (before, now) in enumerate(pairs, 1):
        groups.append(
            _Group(f"pair {index}, {outcome.against.name}", f"{index}", "baseline", (before,))
        )
        groups.append(
            _Group(f"pair {index}, {outcome.against.now or _NOW}", f"{index}", "now", (now,))
        )
    return groups


def _chart(outcome: Outcome, groups: Sequence[_Group], unit: str, *, paired: bool) -> Chart:
    # Both arms of a pair have one place
    place_of = {index: index // 2 if paired else index for index in range(len(groups))}
    labels = list({place_of[index]: group.label for index, group in enumerate(groups)}.values())
    layers = _level(outcome)
    for arm in ("baseline", "now"):
        chosen = [(place_of[i], group) for i, group in enumerate(groups) if group.arm == arm]
        runs = tuple(
            Mark(place, rate, hover=f"{group.name}, run {run}: {figures.rate(rate)} {unit}")
            for place, group in chosen
            for run, rate in enumerate(group.rates, 1)
        )
        layers.append(Layer(shape="dot", style=arm, marks=runs))
        if not paired:
            medians = tuple(Mark(place, statistics.median(group.rates)) for place, group in chosen)
            layers.append(Layer(shape="dash", style=arm, marks=medians))
    if interval := _interval(outcome):
        bar = Mark(len(labels), interval[0], y2=interval[1], hover="90 % interval of the change")
        layers.append(Layer(shape="rule", style="interval", marks=(bar,)))
        labels.append("interval")
    return Chart(
        description=f"Runs of {outcome.case.id}, in {unit}",
        x=places(labels, "pair" if paired else "session"),
        y=Axis(title=unit),
        layers=tuple(layers),
        height=_RUNS_HEIGHT,
    )


def _level(outcome: Outcome) -> list[Layer]:
    """Return the band of what is tolerated, and the line that changes are counted from."""
    comparison = outcome.judgement.throughput
    if comparison.before is None:
        return []
    return level_layers([Stretch(START, END, comparison.before, comparison.tolerance)])


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
        caption = (
            f"Each dot is a run: grey of {outcome.against.name}, blue of {now}, pair by pair."
        )
    elif len(groups) > 1:
        caption = "Each dot is a run, a dash the median of its session: grey stored, blue now."
        left_out = len(outcome.baseline_sessions) - _SESSIONS_MAX
        if left_out > 0:
            caption += f" {left_out} older sessions are not drawn."
        aside = len(outcome.baseline_sessions) - len(level_of(outcome.baseline_sessions))
        if aside:
            caption += f" {aside} of the stored sessions are set aside, and do not count."
    else:
        caption = "Each dot is a run, the dash their median; nothing is stored to compare it with."
    if comparison.before is not None:
        caption += f" The dashed line is the level before, {figures.rate(comparison.before)}"
        if comparison.tolerance:
            down = figures.percent(comparison.tolerance, sign=False)
            caption += f"; the band below it is what is tolerated, {down}"
        caption += "."
    if comparison.interval is not None:
        caption += f" The bar is the 90 % interval of the change, {figures.interval(comparison)}."
    return caption


def _runs_numbers(groups: Sequence[_Group], unit: str) -> Html:
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
    return table("Runs", columns, rows)


_RANKS_HEIGHT: Final = 160
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
    caption = "The largest peak of each rank over the runs."
    if before is not None:
        caption += f" The dashed line is the largest rank's before, {figures.memory(before)}."
    values = {rank: peak / _MIB for rank, peak in sorted(peaks.items())}
    line = None if before is None else before / _MIB
    return Drawn(
        chart=_bars(values, nodes, "MiB", f"Peak memory of the ranks of {outcome.case.id}", line),
        caption=caption,
        numbers=_ranks_numbers(
            "Peak memory",
            "MiB",
            nodes,
            {rank: (f"{value:.0f}", value) for rank, value in values.items()},
        ),
    )


def skew_chart(outcome: Outcome) -> Drawn | None:
    """Return how far each rank's own time is above the others'; None where it is not known."""
    skews = rank_skews(outcome)
    if skews is None:
        return None
    nodes = _nodes(outcome)
    basis = (
        "the CPU seconds of the window"
        if skews.basis == CPU_SECONDS
        else "iterations in which a rank waits for no other"
    )
    values = {rank: 100 * above for rank, above in skews.above.items()}
    title = "% above the others"
    return Drawn(
        chart=_bars(values, nodes, title, f"Skew of the ranks of {outcome.case.id}", None),
        caption=f"What a rank does itself against the median of the others: {basis}; medians "
        "over the runs. A rank far above the others makes all of them wait.",
        numbers=_ranks_numbers(
            "Skew",
            title,
            nodes,
            {rank: (figures.percent(above), above) for rank, above in skews.above.items()},
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
            Mark(place, value, hover=f"rank {rank}, {nodes.get(rank, '')}: {value:.4g} {title}")
            for place, (rank, value) in enumerate(values.items())
            if not several or nodes.get(rank) == name
        )
        layers.append(Layer(shape="bar", style=style, marks=bars, name=name))
    if line is not None:
        before = Mark(START, line, x2=END)
        layers.append(Layer(shape="rule", style="ideal", marks=(before,)))
    return Chart(
        description=description,
        x=places([str(rank) for rank in values], "rank"),
        y=Axis(title=title, zero=True),
        layers=tuple(layers),
        height=_RANKS_HEIGHT,
    )


def _ranks_numbers(
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
            TableRow(cells=(cell(str(rank)), cell(nodes.get(rank, "")), number(*cells)))
            for rank, cells in shown.items()
        ],
    )
