"""Drift within runs: whose it is where two arms take turns, and the halves of a window."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.run import MACHINE_DRIFTED, RunSummary
from pytest_dlperf.judge.problem_codes import DRIFTING


def without_drift_of_machine(measurement: Measurement) -> Measurement:
    """Return an arm in lock-step without its drift, unless that is its own in most runs."""
    drifting = [run for run in measurement.runs if _has(run, "drift")]
    own = [run for run in drifting if not _has(run, MACHINE_DRIFTED)]
    if len(own) == len(drifting) or 2 * len(own) > len(measurement.runs):
        return measurement
    problems = tuple(problem for problem in measurement.problems if problem.code != "drift")
    return replace(measurement, problems=problems)


def _has(run: RunSummary, code: str) -> bool:
    return any(problem.code == code for problem in run.problems)


def drifts(measurement: Measurement) -> bool:
    """Return whether steps are not all alike, so that parts of a run have rates of their own."""
    return any(problem.code in DRIFTING for problem in measurement.problems)


def faster_halves(measurement: Measurement) -> Measurement | None:
    """Return the measurement with each run's rate over the faster half of its window.

    None where the seconds of its iterations are not known.
    """
    halves = [_halves(measurement, run) for run in measurement.runs]
    known = [max(rates) for rates in halves if rates is not None]
    return _with_rates(measurement, known)


def in_halves(measurement: Measurement) -> tuple[Measurement, ...]:
    """Return the measurement over the first and over the second half of each run's window.

    Empty where the seconds of its iterations are not known.
    """
    halves = [_halves(measurement, run) for run in measurement.runs]
    known = [rates for rates in halves if rates is not None]
    by_half = [_with_rates(measurement, [rates[half] for rates in known]) for half in (0, 1)]
    return tuple(part for part in by_half if part is not None)


def _with_rates(measurement: Measurement, rates: Sequence[float]) -> Measurement | None:
    """Return the measurement with these rates; None where a run has none."""
    if len(rates) < len(measurement.runs):
        return None
    runs = tuple(
        replace(run, throughput=rate, peak_memory_bytes=None)
        for run, rate in zip(measurement.runs, rates, strict=True)
    )
    return replace(measurement, runs=runs, parent_throughputs=())


def _halves(measurement: Measurement, run: RunSummary) -> tuple[float, float] | None:
    """Return the rates of a run over both halves of its window; None where they are unknown."""
    first, end = measurement.conditions.window
    seconds = run.step_seconds[first:end]
    middle = len(seconds) // 2
    if not middle or min(seconds) <= 0:
        return None
    work = run.throughput * statistics.fmean(seconds)
    return work / statistics.fmean(seconds[:middle]), work / statistics.fmean(seconds[middle:])
