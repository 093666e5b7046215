"""Drift within runs: whose it is where two arms take turns, and the half that it slows less."""

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
