"""A measurement by the faster half of each run's window."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.run import RunSummary


def faster_halves(measurement: Measurement) -> Measurement | None:
    """Return the measurement with each run's rate over the faster half of its window.

    None where the seconds of its iterations are not known.
    """
    first, end = measurement.conditions.window
    rates = [_faster_half(run, run.step_seconds[first:end]) for run in measurement.runs]
    known = [rate for rate in rates if rate is not None]
    if len(known) < len(rates):
        return None
    runs = tuple(
        replace(run, throughput=rate, peak_memory_bytes=None)
        for run, rate in zip(measurement.runs, known, strict=True)
    )
    return replace(measurement, runs=runs, parent_throughputs=())


def _faster_half(run: RunSummary, seconds: Sequence[float]) -> float | None:
    half = len(seconds) // 2
    if not half or min(seconds) <= 0:
        return None
    halves = statistics.fmean(seconds[:half]), statistics.fmean(seconds[half:])
    return run.throughput * statistics.fmean(seconds) / min(halves)
