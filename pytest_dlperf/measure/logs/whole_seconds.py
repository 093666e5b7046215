"""Stretches by a clock of whole seconds, joined until one second is small against each.

Each stretch between two states of a bar is off by up to a second, and so are medians and means of
their rates. Work over time is not: seconds that one stretch has too much the next has too little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pytest_dlperf.measure.logs.spans import RateSeries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: One second is at most 2 % of a joined stretch.
_FINER: Final = 50
#: But so many stretches are left, where the log has as many.
_STRETCHES: Final = 12


def joined(series: RateSeries, tick_s: float) -> RateSeries:
    """Return a series with neighbours joined; ``tick_s`` is what its clock is rounded to."""
    least_s = min(_FINER * tick_s, float(np.sum(series.seconds)) / _STRETCHES)
    starts = _starts(series, least_s)
    if len(starts) == len(series):
        return series
    ends = np.append(starts[1:], len(series)) - 1
    work, seconds = np.add.reduceat(series.work, starts), np.add.reduceat(series.seconds, starts)

    def mean(column: Floats) -> Floats:
        iterations = np.add.reduceat(series.iterations, starts)
        return np.add.reduceat(column * series.iterations, starts) / iterations

    return RateSeries(
        first=series.first[starts],
        last=series.last[ends],
        rate=work / seconds,
        printed_rate=work / np.add.reduceat(series.work / series.printed_rate, starts),
        mean_rate=series.mean_rate[ends],
        work=work,
        seconds=seconds,
        wait_seconds=np.add.reduceat(series.wait_seconds, starts),
        label=series.label[ends],
        label_start=series.label_start[starts],
        at_s=series.at_s[ends],
        epoch_begins=np.logical_or.reduceat(series.epoch_begins, starts),
        knows_work=np.logical_and.reduceat(series.knows_work, starts),
        memory_bytes=np.fmax.reduceat(series.memory_bytes, starts),
        tflops=mean(series.tflops),
        mfu=mean(series.mfu),
        grad_norm=mean(series.grad_norm),
    )


def _starts(series: RateSeries, least_s: float) -> NDArray[np.intp]:
    """Return where the joined stretches begin: after so long a time, and where one is missing."""
    starts: list[int] = []
    so_far_s, end = 0.0, 0.0
    rows = zip(series.first.tolist(), series.last.tolist(), series.seconds.tolist(), strict=True)
    for place, (first, last, seconds) in enumerate(rows):
        if not starts or first != end + 1 or so_far_s >= least_s:
            starts.append(place)
            so_far_s = 0.0
        so_far_s, end = so_far_s + seconds, last
    # The rest is too short by itself.
    if len(starts) > 1 and so_far_s < least_s:
        last_start = starts[-1]
        if series.first[last_start] == series.last[last_start - 1] + 1:
            starts.pop()
    return np.array(starts, dtype=np.intp)
