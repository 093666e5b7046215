"""Judge cases by the rates of logs, measured cases or plain numbers (``--dlperf-from-logs``)."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Final

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.case import NO_FRAMEWORK, Case
from pytest_dlperf.core.errors import CaseError, UsageError
from pytest_dlperf.core.finding import Finding, Weight
from pytest_dlperf.core.id_words import CaseId
from pytest_dlperf.core.log_pattern import LogPattern
from pytest_dlperf.core.measurement import Conditions, Measurement
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.quantity import precisions, same_precision, same_unit, same_work
from pytest_dlperf.core.run import Problem, RunSummary
from pytest_dlperf.core.verdict import Comparison, Judgement, Rule, Verdict
from pytest_dlperf.flow.log_unit import format_of, logged_batch
from pytest_dlperf.flow.user_program import log_run_summary
from pytest_dlperf.judge.evidence.logs import LogRun, LogSide
from pytest_dlperf.judge.evidence.numbers import Numbers
from pytest_dlperf.judge.stats.priors import LOGS, LOGS_AND_STORED
from pytest_dlperf.judge.tolerance import tolerance_of
from pytest_dlperf.judge.verdict import judge_logs, judgement_by, with_finding
from pytest_dlperf.measure.logs.clean import blocks
from pytest_dlperf.measure.logs.extract import LogResult, extract
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from pytest_dlperf.measure.logs.path_words import Place
from pytest_dlperf.measure.logs.problems import MISMATCHES
from pytest_dlperf.measure.logs.registry import SAMPLES, formats, sniff

#: One training of a side.
Training = Outcome | Baseline | LogSide | Numbers


def side_of(training: Training) -> LogSide:
    """Return the rates of a training, with its conditions as far as they are known."""
    if isinstance(training, LogSide):
        return training
    if isinstance(training, Baseline):
        return _side_of_baseline(training)
    if isinstance(training, Numbers):
        unit = training.unit.removesuffix("/s") or "samples"
        return LogSide(name=training.name, unit=unit, sessions=training.sessions)
    return _side_of_outcome(training)


def numbers_of_side(training: Training, name: str) -> Numbers:
    """Return the rates of a training, without its conditions."""
    side = side_of(training)
    return Numbers(name=name, unit=side.unit, sessions=side.sessions)


def side_of_logs(results: Sequence[LogResult], name: str) -> LogSide:
    """Return the rates of logs of one training; a log of one that failed has none."""
    first = results[0]
    return LogSide(
        name=name,
        unit=first.unit or "samples",
        sessions=(tuple(r.throughput for r in results if r.throughput is not None),),
        world_size=first.world_size,
        batch_size_per_device=first.batch_size_per_device,
        iteration_work=_same_work([result.iteration_work for result in results]),
        stated_work=_same_work([result.stated_work for result in results]),
        sequence_length=first.sequence_length,
        image_size=first.image_size,
        precision=first.precision,
        runs=tuple(_log_run(result) for result in results if result.throughput is not None),
        problems=tuple(
            Problem(code=problem.code, message=f"{result.path}: {problem.message}")
            for result in results
            for problem in result.problems
        ),
        files=frozenset(os.path.realpath(result.path) for result in results),
        log_format=first.format,
        has_loss=any(result.loss_last is not None for result in results),
    )


def _same_work(works: Sequence[float | None]) -> float | None:
    """Return the work of an iteration of all logs; None where one does not say it, or another."""
    first = works[0]
    same = first is not None and all(work is not None and same_work(work, first) for work in works)
    return first if same else None


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
        iterations_per_s_by_clock=result.iterations_per_s_by_clock,
        data_wait_share=result.data_wait_share,
        stall=f"{Path(result.path).name}: {stall}" if stall else "",
    )


def _side_of_baseline(baseline: Baseline) -> LogSide:
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


def _side_of_outcome(outcome: Outcome) -> LogSide:
    measurement = outcome.measurement
    assert measurement is not None
    return LogSide(
        name=outcome.case.id,
        unit=measurement.unit,
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


#: Files of this package's run folders that are not training logs.
_OWN: Final = frozenset({"supervisor.log", "output.log"})


def judge_by_logs(
    case: Case, folder: LogFolder, baseline: Baseline | None, rule: Rule, *, hardware: str
) -> tuple[Measurement, Judgement]:
    """Return the measurement of ``case`` from its logs, one run per log, and the verdict.

    Only rates are compared. Raises ``CaseError`` if there is no log, if one has no throughput or
    is of another training, or if one may belong to another case as well.
    """
    paths = folder.logs_of(case)
    if not paths:
        raise CaseError(f"no log of it under {folder.folder}", subject=case.id)
    for path in paths:
        if rivals := folder.rivals(case, path):
            raise CaseError(
                f"{path} may be of {', '.join(rivals)} as well, and its look does not "
                f"say which framework wrote it; name it {case.id}_1.log",
                subject=case.id,
            )
    options = ParseOptions(
        fmt=format_of(case),
        skip=case.protocol.warmup,
        batch_size_per_device=logged_batch(case),
        work_per_device=case.work,
        world_size=case.world_size,
        split=case.parallelism.split,
        precision=case.precision,
    )
    results = [extract(path, options) for path in paths]
    for result in results:
        _check(case, result)
    unit = case.unit or results[0].unit or SAMPLES
    measurement = _measurement(case, results, unit, hardware)
    if baseline is None:
        nothing = Finding(code="nothing-stored", weight=Weight.UNSTORED, figures={"kind": "logs"})
        rate = Comparison(now=measurement.throughput, verdict=Verdict.NO_BASELINE)
        return measurement, judgement_by((nothing,), throughput=rate)
    before = replace(side_of(baseline), name="the baseline")
    now = replace(side_of_logs(results, case.id), unit=unit)
    tolerance = tolerance_of(case, baseline, rule)
    prior = LOGS_AND_STORED if baseline.source.kind == "measured" else LOGS
    judged = judge_logs(before, now, replace(rule, tolerance=tolerance), prior=prior)
    if case.metrics:
        names = ", ".join(gate.name for gate in case.metrics)
        judged = with_finding(judged, "metrics-not-logged", metrics=names)
    return measurement, judged


class LogFolder:
    """A folder of logs, and which of them belong to which case.

    The logs of a case are named after its id (``<id>.log``, ``<id>_2.log``, ``<id>/run1/…``), or
    by the layout ``<layout>/<suite>_b<batch>_<precision>_<run>.log``. The latter does not name
    the framework, so the format of the log decides.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._claims: defaultdict[Path, set[str]] = defaultdict(set)
        self._formats: dict[Path, str | None] = {}

    @cached_property
    def _files(self) -> tuple[Path, ...]:
        return tuple(sorted(path for path in self.folder.rglob("*") if path.is_file()))

    def logs_of(self, case: Case) -> list[Path]:
        """Return the logs of ``case``, one per run."""
        named = [path for path in self._files if self._is_named(path, case)]
        return named or [
            path
            for path in self._files
            if _is_laid_out(path, case) and self._may_be_written_by(path, case)
        ]

    def claim(self, case: Case) -> bool:
        """Note the logs of a case of this session; return whether it has any."""
        paths = self.logs_of(case)
        for path in paths:
            self._claims[path].add(case.id)
        return bool(paths)

    def rivals(self, case: Case, path: Path) -> list[str]:
        """Return the ids of the other cases that claim ``path``."""
        return sorted(self._claims[path] - {case.id})

    def _is_named(self, path: Path, case: Case) -> bool:
        parts = path.relative_to(self.folder).parts
        if case.id in parts[:-1]:
            # Every rank writes a file, and one of them is enough.
            number = re.fullmatch(r"rank(\d+)\.jsonl", path.name)
            if number:
                return int(number[1]) == 0
            return path.suffix in {".log", ".txt"} and path.name not in _OWN
        return re.fullmatch(rf"{re.escape(case.id)}([._-]\d+)?(\.\w+)?", path.name) is not None

    def _may_be_written_by(self, path: Path, case: Case) -> bool:
        """Whether the log has the format that the case declares, or one of its framework."""
        if isinstance(case.log_format, LogPattern):
            return True
        if path not in self._formats:
            self._formats[path] = _format_name(path)
        name = self._formats[path]
        if case.log_format:
            return name is None or name == case.log_format
        return case.framework == NO_FRAMEWORK or framework_of(name) in {None, case.framework}


def _format_name(path: Path) -> str | None:
    """Return the detected format of a log; None if it is unknown or the file cannot be read."""
    try:
        with path.open("rb") as stream:
            found = (sniff(block) for block in blocks(stream))
            fmt = next((fmt for fmt in found if fmt is not None), None)
    except OSError:
        return None  # the error is reported with its case
    return None if fmt is None else fmt.name


def _is_laid_out(path: Path, case: Case) -> bool:
    place = Place.of(str(path))
    suite = case.suite if case.size == "full" else f"{case.suite}.{case.size}"
    return (
        place is not None
        and place.layout == str(case.layout)
        and place.model == suite
        and place.batch_size_per_device == case.batch_size_per_device
        and case.precision in precisions(place.precision)
    )


def framework_of(name: str | None) -> str | None:
    """Return the framework that writes the format ``name``; None if several do."""
    fmt = formats().get(name or "")
    return None if fmt is None else fmt.framework


def _check(case: Case, result: LogResult) -> None:
    if result.throughput is None:
        problems = "; ".join(problem.message for problem in result.problems)
        raise CaseError(f"{result.path}: no throughput: {problems}", subject=case.id)
    mismatch = [problem.message for problem in result.problems if problem.code in MISMATCHES]
    if result.precision is not None and not same_precision(result.precision, case.precision):
        mismatch.append(f"its path says {result.precision}, the case is {case.precision}")
    framework = None if case.command else framework_of(result.format)
    if framework is not None and framework != case.framework:
        mismatch.append(f"a {result.format} log is of {framework}, the case of {case.framework}")
    # This package's own records have the unit of the case.
    known = case.unit and result.format != "dlperf"
    if known and not same_unit(result.unit or SAMPLES, case.unit):
        mismatch.append(f"it counts {result.unit}, the case {case.unit}")
    if mismatch:
        raise CaseError(f"{result.path}: {'; '.join(mismatch)}", subject=case.id)


def _measurement(
    case: Case, results: Sequence[LogResult], unit: str, hardware: str
) -> Measurement:
    problems = {problem.code: problem for result in results for problem in result.problems}
    return Measurement(
        case_id=case.id,
        unit=unit,
        conditions=Conditions(
            window=case.protocol.window,
            launcher="log",
            world_size=case.world_size,
            batch_size_per_device=case.batch_size_per_device,
            unit=unit,
            dtype=f"declared {case.precision}",
            data="log",
            parameter_count=None,
            input_shapes=(),
            options=dict(case.options),
            threads_per_rank=0,
            host_sharing=False,
            hardware=hardware,
            version=case.version,
        ),
        runs=tuple(log_run_summary(result) for result in results),
        problems=tuple(problems.values()),
    )
