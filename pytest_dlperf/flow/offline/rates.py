"""Reduce logs, measured cases, baselines and plain numbers to their rates, to judge them alike."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.case import CaseId
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.run import Problem, RunSummary
from pytest_dlperf.judge.log_verdict import LogRun, LogSide
from pytest_dlperf.judge.numbers import Numbers

if TYPE_CHECKING:
    from pytest_dlperf.measure.logs.extract import LogResult


#: One training of a side.
Training = Outcome | Baseline | LogSide | Numbers


def side_of(training: Training) -> LogSide:
    """Return the rates of a training, with its conditions as far as they are known."""
    if isinstance(training, LogSide):
        return training
    if isinstance(training, Baseline):
        return _of_baseline(training)
    if isinstance(training, Numbers):
        unit = training.unit.removesuffix("/s") or "samples"
        return LogSide(name=training.name, unit=unit, sessions=training.sessions)
    return _of_outcome(training)


def numbers_of_side(training: Training, name: str) -> Numbers:
    """Return the rates of a training, without its conditions."""
    side = side_of(training)
    return Numbers(name=name, unit=side.unit, sessions=side.sessions)


def side_of_logs(results: Sequence[LogResult], name: str) -> LogSide:
    """Return the rates of logs of one training, each of which has a throughput."""
    first = results[0]
    return LogSide(
        name=name,
        unit=first.unit or "samples",
        sessions=(tuple(r.throughput for r in results if r.throughput is not None),),
        world_size=first.world_size,
        batch_size_per_device=first.batch_size_per_device,
        precision=first.precision,
        runs=tuple(_log_run(result) for result in results),
        problems=tuple(
            Problem(code=problem.code, message=f"{result.path}: {problem.message}")
            for result in results
            for problem in result.problems
        ),
        files=frozenset(os.path.realpath(result.path) for result in results),
    )


def _log_run(result: LogResult) -> LogRun:
    estimates = result.estimates
    stall = next((p.message for p in result.problems if p.code == "unstable"), "")
    return LogRun(
        throughput=result.throughput or 0.0,
        estimates={}
        if estimates is None
        else {
            "mean_of_rates": estimates.mean_of_rates,
            "median_of_rates": estimates.median_of_rates,
            "time_weighted": estimates.time_weighted,
        },
        data_wait_share=result.data_wait_share,
        stall=f"{Path(result.path).name}: {stall}" if stall else "",
    )


def _of_baseline(baseline: Baseline) -> LogSide:
    """Return the stored sessions; for a published number the case id has the conditions."""
    conditions = baseline.conditions
    try:
        case = CaseId.parse(baseline.case_id)
    except UsageError:
        case = None
    world = conditions.world_size if conditions else None
    batch = conditions.batch_size_per_device if conditions else None
    if case is not None:
        world = world or case.layout.world_size
        batch = batch or case.batch_size_per_device
    return LogSide(
        name=baseline.case_id,
        unit=baseline.unit,
        sessions=tuple(session.runs for session in baseline.level if session.runs),
        world_size=world,
        batch_size_per_device=batch,
        precision=case.precision if case else None,
    )


def _of_outcome(outcome: Outcome) -> LogSide:
    measurement = outcome.measurement
    assert measurement is not None
    return LogSide(
        name=outcome.case.id,
        unit=outcome.case.unit,
        sessions=(measurement.throughputs,),
        world_size=outcome.case.world_size,
        batch_size_per_device=outcome.case.batch_size_per_device,
        precision=outcome.case.precision,
        runs=tuple(_run(run) for run in measurement.runs),
        problems=measurement.problems,
    )


def _run(run: RunSummary) -> LogRun:
    return LogRun(
        throughput=run.throughput,
        estimates={
            "mean_of_rates": run.estimates["mean_of_rates"],
            "median_of_rates": run.estimates["median_step"],
            "time_weighted": run.throughput,
        },
        data_wait_share=run.data_wait_share,
    )
