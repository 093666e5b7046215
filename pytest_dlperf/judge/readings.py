"""A measurement by another reading of its runs: by another estimator, or by half a window."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.run import RunSummary

#: The rate estimators beside work over time, as runs and sessions name them.
ESTIMATORS: Final = ("mean_of_rates", "median_step")
_Choice = Callable[[Sequence[float]], float]


def by_estimator(
    measurement: Measurement, baseline: Baseline, name: str
) -> tuple[Measurement, Baseline] | None:
    """Return both sides with their runs by another estimator; None where a side lacks it.

    Without parents and memory, which the estimator does not concern.
    """
    stored = [session for session in baseline.level if session.runs]
    if not all(name in run.estimates for run in measurement.runs):
        return None
    if not stored or not all(name in session.estimates for session in stored):
        return None
    rates = [run.estimates[name] for run in measurement.runs]
    if not all(math.isfinite(rate) and rate > 0 for rate in rates):
        return None
    sessions = tuple(
        replace(
            session,
            runs=session.estimates[name],
            speedup=None,
            parent_runs=(),
            peak_memory_bytes=(),
        )
        for session in stored
    )
    return (_with_rates(measurement, rates), replace(baseline, sessions=sessions))


def by_half(measurement: Measurement, choice: _Choice) -> Measurement | None:
    """Return the measurement with each run's rate over one half of its window.

    ``choice`` is applied to the mean seconds of a step of either half: ``min`` takes the faster
    one. None where the seconds of its iterations are not known.
    """
    first, end = measurement.conditions.window
    rates = [_half(run, run.step_seconds[first:end], choice) for run in measurement.runs]
    known = [rate for rate in rates if rate is not None]
    return _with_rates(measurement, known) if len(known) == len(rates) else None


def _half(run: RunSummary, seconds: Sequence[float], choice: _Choice) -> float | None:
    half = len(seconds) // 2
    if not half or min(seconds) <= 0:
        return None
    halves = statistics.fmean(seconds[:half]), statistics.fmean(seconds[half:])
    return run.throughput * statistics.fmean(seconds) / choice(halves)


def _with_rates(measurement: Measurement, rates: Sequence[float]) -> Measurement:
    runs = tuple(
        replace(run, throughput=rate, peak_memory_bytes=None)
        for run, rate in zip(measurement.runs, rates, strict=True)
    )
    return replace(measurement, runs=runs, parent_throughputs=())
