"""Drift within runs: whose it is where two arms take turns, and what it leaves open."""

from __future__ import annotations

from collections.abc import Collection
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
    return bool(problem_text(measurement, DRIFTING))


def problem_text(measurement: Measurement, codes: Collection[str]) -> str:
    """Return the messages of a measurement's problems with these codes; empty for none."""
    messages = (problem.message for problem in measurement.problems if problem.code in codes)
    return ", and ".join(message.strip().rstrip(".") for message in messages)
