"""The iterations of a case's runs: warm-up, stalls, and waits for data."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.report import figures
from pytest_dlperf.report.page.chart import END, START, Axis, Chart, Layer, Mark
from pytest_dlperf.report.page.markup import Html
from pytest_dlperf.report.page.svg import Drawn
from pytest_dlperf.report.page.table import Column, TableRow, cell, number, table

#: A measured iteration that took so many times the median one is marked as a stall.
STALL: Final = 2.0
#: Longer runs are drawn by the slowest of several iterations.
POINTS_MAX: Final = 200


class Trace(NamedTuple):
    """A run as it is drawn; ``each`` iterations are one point, the slowest of them."""

    steps_ms: list[float]
    waits_ms: list[float]
    each: int


def stalls(run: RunSummary, warmup: int) -> list[int]:
    """Return the measured iterations that took more than ``STALL`` times the median one."""
    measured = run.step_seconds[warmup:]
    if not measured:
        return []
    limit = STALL * statistics.median(measured)
    return [warmup + index for index, step in enumerate(measured) if step > limit]


def warmup_of(measurement: Measurement, run: RunSummary) -> int:
    """Return where the window begins among the steps; 0 where these are not the protocol's."""
    first, end = measurement.conditions.window
    return first if len(run.step_seconds) == end else 0


def thinned(run: RunSummary) -> Trace:
    """Return what is drawn of ``run``."""
    steps, waits = run.step_seconds, run.data_wait_seconds
    each = -(-len(steps) // POINTS_MAX)
    starts = range(0, len(steps), each)
    slowest = [
        max(range(start, min(start + each, len(steps))), key=steps.__getitem__) for start in starts
    ]
    return Trace(
        steps_ms=[milliseconds(steps[index]) for index in slowest],
        waits_ms=[milliseconds(waits[index]) for index in slowest] if waits else [],
        each=each,
    )


def milliseconds(seconds: float) -> float:
    """Return seconds in milliseconds, to three digits."""
    return float(f"{1000 * seconds:.3g}")


def iteration_table(measurement: Measurement) -> Html:
    """Return the iterations of each run in figures."""
    columns = [
        Column(heading="run"),
        Column(heading="first ms", kind="number"),
        Column(heading="median ms", kind="number"),
        Column(heading="slowest ms", kind="number"),
        Column(heading="stalls", kind="number"),
        Column(heading="between" if _is_marked(measurement) else "data wait", kind="number"),
    ]
    rows = []
    for index, run in enumerate(measurement.runs, 1):
        warmup = warmup_of(measurement, run)
        measured = run.step_seconds[warmup:]
        if not measured or run.steps_are_relative:
            continue
        slowest = max(range(len(measured)), key=measured.__getitem__)
        rows.append(
            TableRow(
                cells=(
                    cell(str(index)),
                    number(f"{milliseconds(run.step_seconds[0]):g}", None),
                    number(f"{milliseconds(statistics.median(measured)):g}", None),
                    number(
                        f"{milliseconds(measured[slowest]):g} (iteration {warmup + slowest})", None
                    ),
                    number(str(len(stalls(run, warmup))), None),
                    number(figures.percent(run.data_wait_share, sign=False), None),
                )
            )
        )
    return table(
        "Iterations of each run; the first as it was, the others of the window", columns, rows
    )


def _is_marked(measurement: Measurement) -> bool:
    """Whether a program of the user's own marked the steps; why it waits is then not known."""
    return "command" in measurement.conditions.options


_HEIGHT: Final = 200
#: Of a step; less is not to be seen.
_WAIT_MIN: Final = 0.02
#: Runs behind the one that is drawn in full.
_OTHERS_MAX: Final = 2
#: Where measured iterations differ so many times, the axis is logarithmic.
_LOG_FROM: Final = 8.0


class _Axis(NamedTuple):
    """How far the axis of times goes: over what was measured; the first steps may be beyond."""

    top_ms: float
    logarithmic: bool


def trace_chart(outcome: Outcome) -> Drawn | None:
    """Return the chart of the run with the median rate; None where steps are not known."""
    measurement = outcome.measurement
    if measurement is None:
        return None
    shown = _median_run(measurement)
    if shown is None:
        return None
    warmup = warmup_of(measurement, shown)
    other_arm = outcome.against.measurement if outcome.against else None
    if outcome.against is not None and other_arm is not None:
        other_run = _median_run(other_arm)
        behind, of = [other_run] if other_run else [], outcome.against.name
    else:
        rest = [run for run in _runs_with_steps(measurement) if run is not shown]
        behind, of = rest[:_OTHERS_MAX], ""
    return Drawn(
        chart=_chart(outcome, shown, behind, warmup),
        caption=_caption(measurement, shown, warmup, _behind(behind, of)),
        numbers=iteration_table(measurement),
    )


def _median_run(measurement: Measurement) -> RunSummary | None:
    ordered = sorted(_runs_with_steps(measurement), key=lambda run: run.throughput)
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def _runs_with_steps(measurement: Measurement) -> list[RunSummary]:
    """Return the runs whose steps have milliseconds, more than one of them."""
    return [
        run for run in measurement.runs if len(run.step_seconds) > 1 and not run.steps_are_relative
    ]


def _behind(behind: Sequence[RunSummary], of: str) -> str:
    if not behind:
        return ""
    return f"; grey: the median run of {of}" if of else f"; grey: {len(behind)} others"


def _chart(
    outcome: Outcome, shown: RunSummary, behind: Sequence[RunSummary], warmup: int
) -> Chart:
    trace, axis = thinned(shown), _axis(shown, warmup)
    layers: list[Layer] = []
    if warmup:
        shaded = Mark(0, START, x2=warmup, y2=END)
        layers.append(Layer(shape="area", style="warmup", marks=(shaded,)))
    for run in map(thinned, behind):
        layers.append(Layer(shape="line", style="other", marks=_steps(run)))
    layers.append(Layer(shape="line", style="now", marks=_steps(trace)))
    if waits := tuple(_waits(trace)):
        layers.append(Layer(shape="rule", style="wait", marks=waits))
    if marked := stalls(shown, warmup):
        layers.append(Layer(shape="arrow", style="mark", marks=_stalls(shown, marked)))
    last = max(len(run.step_seconds) - 1 for run in (shown, *behind))
    return Chart(
        description=f"Seconds of each iteration of a run of {outcome.case.id}",
        x=Axis(title="iteration", low=0, high=max(last, warmup)),
        y=Axis(
            title="ms per iteration",
            low=None if axis.logarithmic else 0.0,
            high=None if axis.logarithmic else axis.top_ms,
            logarithmic=axis.logarithmic,
        ),
        layers=tuple(layers),
        height=_HEIGHT,
    )


def _steps(trace: Trace) -> tuple[Mark, ...]:
    return tuple(Mark(index * trace.each, step) for index, step in enumerate(trace.steps_ms))


def _axis(run: RunSummary, warmup: int) -> _Axis:
    measured = run.step_seconds[warmup:]
    median = statistics.median(measured)
    logarithmic = min(run.step_seconds) > 0 and max(measured) > _LOG_FROM * median
    return _Axis(milliseconds(max(1.2 * max(measured), 1.6 * median)), logarithmic)


def _waits(trace: Trace) -> Iterator[Mark]:
    """Yield the part of each step that waited, from the top of the step down."""
    for index, (step, wait) in enumerate(zip(trace.steps_ms, trace.waits_ms, strict=False)):
        if wait > _WAIT_MIN * step:
            yield Mark(index * trace.each, step, y2=max(step - wait, step * _WAIT_MIN))


def _stalls(run: RunSummary, marked: Sequence[int]) -> tuple[Mark, ...]:
    """Return the stalls; of very many the slowest ones."""
    slowest = sorted(marked, key=lambda index: -run.step_seconds[index])[:POINTS_MAX]
    values = ((index, milliseconds(run.step_seconds[index])) for index in slowest)
    return tuple(Mark(index, ms, hover=f"iteration {index}: {ms:g} ms") for index, ms in values)


def _caption(measurement: Measurement, shown: RunSummary, warmup: int, behind: str) -> str:
    place, axis = measurement.runs.index(shown) + 1, _axis(shown, warmup)
    caption = f"Blue: run {place} of {len(measurement.runs)}, the one of the median rate{behind}."
    if warmup:
        caption += f" Shaded: warm-up, {warmup} iterations that do not count."
        if warmup_s := measurement.conditions.options.get("warmup_s"):
            caption += f" More of them, until {warmup_s} s were over, are not shown."
    if marked := stalls(shown, warmup):
        noun = "iteration" if len(marked) == 1 else "iterations"
        caption += f" Marked: {len(marked)} {noun} of more than twice the median."
    if shown.data_wait_seconds:
        caption += (
            " Thick yellow: the part of an iteration before its marked step began"
            if _is_marked(measurement)
            else " Thick yellow: the part of an iteration that waited for data"
        )
        if shown.data_wait_share is not None:
            caption += f", {figures.percent(shown.data_wait_share, sign=False)} of the window"
        caption += "."
    beyond = [step for step in shown.step_seconds if milliseconds(step) > axis.top_ms]
    if beyond and not axis.logarithmic:
        caption += (
            f" The first iterations go beyond the axis, to {milliseconds(max(beyond)):g} ms."
        )
    each = thinned(shown).each
    if each > 1:
        caption += f" Each point is the slowest of {each} iterations."
    return caption
