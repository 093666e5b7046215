"""Cases judged by logs that lie in a folder, in place of training: ``--dlperf-from-logs``."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.measurement import Conditions, Measurement
from pytest_dlperf.core.same import precisions, same_precision
from pytest_dlperf.core.verdict import Comparison, Judgement, Verdict
from pytest_dlperf.judge.log_verdict import judge_logs
from pytest_dlperf.judged_arms import arm_of, arm_of_logs
from pytest_dlperf.logs.extract import LogResult, Question, extract
from pytest_dlperf.logs.summary import Place
from pytest_dlperf.own_program import log_run_summary

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_dlperf.core.baseline import Baseline
    from pytest_dlperf.core.case import Case
    from pytest_dlperf.core.verdict import Rule

#: Files of our own run folders that are no training log.
_OWN: Final = frozenset({"supervisor.log", "output.log"})


class LogFolder:
    """Which logs of a folder are of which case.

    Those of a case are named after its id (``<id>.log``, ``<id>_2.log``, ``<id>/run1/…``), or laid
    out as ``<layout>/<suite>_b<batch>_<precision>_<run>.log``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def _files(self) -> tuple[Path, ...]:
        return tuple(sorted(path for path in self.folder.rglob("*") if path.is_file()))

    def logs_of(self, case: Case) -> list[Path]:
        """Return the logs of ``case``, one a run."""
        named = [path for path in self._files if self._is_named(path, case)]
        return named or [path for path in self._files if _is_laid_out(path, case)]

    def _is_named(self, path: Path, case: Case) -> bool:
        parts = path.relative_to(self.folder).parts
        if case.id in parts[:-1]:
            # One rank speaks for all: every rank of ours writes a file.
            number = re.fullmatch(r"rank(\d+)\.jsonl", path.name)
            if number:
                return int(number[1]) == 0
            return path.suffix in {".log", ".txt"} and path.name not in _OWN
        return re.fullmatch(rf"{re.escape(case.id)}([._-]\d+)?(\.\w+)?", path.name) is not None


def _is_laid_out(path: Path, case: Case) -> bool:
    place = Place.of(str(path))
    return (
        place is not None
        and place.layout == str(case.layout)
        and place.model == case.suite
        and place.batch_size_per_device == case.batch_size_per_device
        and case.precision in precisions(place.precision)
    )


def judge_by_logs(
    case: Case, folder: LogFolder, baseline: Baseline | None, rule: Rule, *, hardware: str
) -> tuple[Measurement, Judgement]:
    """Return what the logs of ``case`` measured, one run a log, and the verdict on it.

    By their rates alone. Raises ``CaseError`` if there is none, or one gives no throughput or
    is of another training.
    """
    paths = folder.logs_of(case)
    if not paths:
        raise CaseError(f"{case.id}: no log of it under {folder.folder}")
    question = Question(
        skip=case.protocol.warmup,
        batch_size_per_device=case.batch_size_per_device,
        world_size=case.world_size,
    )
    results = [extract(path, question) for path in paths]
    for result in results:
        _check(case, result)
    measurement = _measurement(case, results, hardware)
    if baseline is None:
        return measurement, Judgement(
            verdict=Verdict.NO_BASELINE,
            reason="no baseline to judge these logs against; a measured session stores one",
            throughput=Comparison(now=measurement.throughput, verdict=Verdict.NO_BASELINE),
        )
    before = replace(arm_of(baseline), name="the baseline", unit=case.unit)
    now = replace(arm_of_logs(results, case.id), unit=case.unit)
    given = rule.tolerance if rule.tolerance is not None else case.tolerance
    return measurement, judge_logs(before, now, replace(rule, tolerance=given))


def _check(case: Case, result: LogResult) -> None:
    if result.throughput is None:
        problems = "; ".join(problem.message for problem in result.problems)
        raise CaseError(f"{case.id}: {result.path}: no throughput: {problems}")
    mismatch = [
        problem.message
        for problem in result.problems
        if problem.code in {"world-size-mismatch", "precision-mismatch"}
    ]
    if result.precision is not None and not same_precision(result.precision, case.precision):
        mismatch.append(f"it trained in {result.precision}, the case in {case.precision}")
    if mismatch:
        raise CaseError(f"{case.id}: {result.path}: {'; '.join(mismatch)}")


def _measurement(case: Case, results: Sequence[LogResult], hardware: str) -> Measurement:
    problems = {problem.code: problem for result in results for problem in result.problems}
    return Measurement(
        case_id=case.id,
        unit=case.unit,
        conditions=Conditions(
            window=case.protocol.window,
            launcher="log",
            world_size=case.world_size,
            batch_size_per_device=case.batch_size_per_device,
            unit=case.unit,
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
