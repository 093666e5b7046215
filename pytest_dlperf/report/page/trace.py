"""The iterations of one run: which warmed up, which stalled, which points are drawn."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_dlperf.report import figures
from pytest_dlperf.report.page.table import Column, TableRow, cell, number, table

if TYPE_CHECKING:
    from pytest_dlperf.core.measurement import Measurement
    from pytest_dlperf.core.run import RunSummary
    from pytest_dlperf.report.page.markup import Html

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
    slowest = [max(range(at, min(at + each, len(steps))), key=steps.__getitem__) for at in starts]
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
        Column(heading="data wait", kind="number"),
    ]
    rows = []
    for index, run in enumerate(measurement.runs, 1):
        warmup = warmup_of(measurement, run)
        measured = run.step_seconds[warmup:]
        if not measured:
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
