"""Summarise a run of a user's program, from its marks or else from its log, and check it."""

from __future__ import annotations

import contextlib
import itertools
import re
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pytest_dlperf.core.case import NO_FRAMEWORK, Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.log_pattern import LogPattern
from pytest_dlperf.core.option_names import OF_PYTEST, OptionNames
from pytest_dlperf.core.run import LaunchPlan, MeasuredRun, Problem, Run, RunSummary
from pytest_dlperf.core.wire_records import RunFacts
from pytest_dlperf.core.writable import log_remark
from pytest_dlperf.flow.log_unit import check_unit_of, format_of, logged_batch
from pytest_dlperf.launch.process.run_logs import head_bytes
from pytest_dlperf.measure.failure import failure_of, log_end
from pytest_dlperf.measure.logs import problems, registry
from pytest_dlperf.measure.logs.extract import LogResult, extract
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from pytest_dlperf.measure.logs.turns import Cut, LogTurn
from pytest_dlperf.measure.records import (
    RankRecords,
    process_of,
    read_conflicts,
    read_progress,
    read_records,
)
from pytest_dlperf.measure.summary import summarise

#: A shorter step cannot be a training step: a mark around nothing takes 2 microseconds; forward,
#: backward and update of a single weight take about 100 (PyTorch on a CPU).
_NO_ROOM_S: Final = 20e-6
#: What marks the steps of a program whose log has such a format.
_MARKS: Final = {
    "huggingface": "pytest_dlperf.mark.huggingface.StepCallback",
    "lightning": "pytest_dlperf.mark.lightning.StepCallback",
}
#: Logs of a launch that together are longer than this take a tenth of a second to read.
_LONG_BYTES: Final = 4 * 2**20


def summarise_program(case: Case, run: Run, options: OptionNames = OF_PYTEST) -> MeasuredRun:
    """Return the summary of a run of a program, and the facts about it.

    With ``log_format``, or turns by time, the log is read; without it the marks, or a log of a
    known format.
    Raises ``CaseError`` if the program failed, or has neither; ``options`` are those of the user
    who reads the message.
    """
    reads_log = case.log_format or run.timed_turns
    records = () if reads_log else read_records(Path(run.plan.records))
    if run.exit_code != 0 or run.timed_out:
        raise failure_of(case, run, records)
    if records:
        check_program(case, run, records)
        summary, facts = summarise(case, run)
        facts["unit"] = case.unit or registry.SAMPLES
        return MeasuredRun(_with_unchecked(case, summary), facts)
    result = _read(case, run)
    # A pattern without a unit has the case's unit.
    unit = case.log_format.unit if isinstance(case.log_format, LogPattern) else result.unit
    check_unit_of(case, unit)
    summary = _with_unchecked(case, _summary(case, run, result, options))
    return MeasuredRun(summary, RunFacts(unit=unit or case.unit or registry.SAMPLES))


def _with_unchecked(case: Case, summary: RunSummary) -> RunSummary:
    """Return the summary with a note on what nobody checks without a framework."""
    if case.framework != NO_FRAMEWORK:
        return summary
    message = (
        "the case names no framework, so neither its presence nor its version, devices and "
        "precision are checked"
    )
    if case.layout.device == "gpu":
        message += "; a step must end with a wait for the GPU, if it is not PyTorch's or Paddle's"
    note = Problem(code="framework-unchecked", message=message)
    return replace(summary, problems=(*summary.problems, note))


def cut_log(case: Case, run: Run) -> Cut | None:
    """Return how the log of a run was cut by its turns; None if it has no measured iterations."""
    return _read(case, run).cut


def is_warm(case: Case, plan: LaunchPlan) -> bool:
    """Return whether a log of a launch, which goes on, has iterations after the warm-up.

    It is read after each turn, so that one which is long by then is not waited for.
    """
    warmup = case.protocol.warmup
    logs = [
        path for path in (*_rank_logs(plan), Path(plan.workdir) / "output.log") if path.exists()
    ]
    if sum(path.stat().st_size for path in logs) > _LONG_BYTES:
        return True
    all_series = [extract(path, _options(case)).series for path in logs]
    return any(series is not None and (series.last > warmup).any() for series in all_series)


def last_print_ns(plan: LaunchPlan) -> int:
    """Return when a launch, which goes on, printed last: to the log of all, or of one rank."""
    paths = [*_rank_logs(plan), Path(plan.workdir) / "output.log"]
    if plan.private_logs:
        paths += Path(plan.private_logs).glob("workerlog.*")
    last_ns = 0
    for path in paths:
        with contextlib.suppress(FileNotFoundError):  # before the first print, or as it ends
            last_ns = max(last_ns, path.stat().st_mtime_ns)
    return last_ns


def _read(case: Case, run: Run) -> LogResult:
    """Return the first rank's log that has a throughput or failed, else the log of all ranks.

    One rank's log is enough, and in a log of several ranks lines may be mixed.
    """
    options = _options(case)
    for path in _rank_logs(run.plan):
        result = extract(path, options, _turns_of(path, run))
        if result.throughput is not None or result.has_failed or result.cut is not None:
            return result
    return extract(Path(run.log), options, _turns_of(Path(run.log), run))


def _options(case: Case) -> ParseOptions:
    return ParseOptions(
        fmt=format_of(case),
        skip=case.protocol.warmup,
        until=case.protocol.iterations,
        batch_size_per_device=logged_batch(case),
        work_per_device=case.work,
        world_size=case.world_size,
        split=case.parallelism.split,
        devices_per_node=case.layout.devices_per_node,
    )


def _turns_of(path: Path, run: Run) -> list[LogTurn]:
    """Return the turns of a run, by what one of its logs had at their ends.

    Without those that a log which was too long may not have in place any more.
    """
    name = str(path.relative_to(run.plan.workdir))
    in_place = head_bytes(len(_rank_logs(run.plan)))
    turns = (
        LogTurn(turn.number, turn.sizes.get(name, 0), turn.seconds, turn.is_within, turn.counts)
        for turn in run.timed_turns
    )
    return [turn for turn in turns if turn.end <= in_place]


def _rank_logs(plan: LaunchPlan) -> list[Path]:
    if not plan.rank_logs:
        return []

    def numbers(path: Path) -> list[int]:
        return [int(digits) for digits in re.findall(r"\d+", f"{path.parent.name}/{path.name}")]

    return sorted(Path(plan.workdir).glob(plan.rank_logs), key=numbers)


def _summary(case: Case, run: Run, result: LogResult, options: OptionNames) -> RunSummary:
    if result.has_failed:
        why = "; ".join(p.message for p in result.problems if p.code in problems.FAILED)
        raise CaseError(f"{why}.", subject=case.id, remarks=_log(run))
    if result.throughput is None or result.estimates is None:
        raise _unreadable(case, run, result, options)
    flops = case.flops_per_unit
    summary = log_run_summary(result)
    if result.cut is not None:
        assert result.kept is not None
        if not result.kept.knows_work.all():
            raise CaseError(
                f"turns by time need the {result.unit} of an iteration, and neither the log nor "
                "the marker says how many a device trains on (work=...); a batch counts samples.",
                subject=case.id,
                remarks=_log(run),
            )
        summary = _in_turns(summary, result, result.cut, run)
    rate = summary.throughput / case.world_size
    return replace(
        summary,
        extras={} if flops is None else {"model_flop_per_s_per_device": flops * rate},
        elapsed_s=run.elapsed_s,
        log=run.log,
        folder=run.plan.workdir,
    )


def log_run_summary(result: LogResult) -> RunSummary:
    """Return a log with a throughput as a run; a log has neither memory nor canary."""
    assert result.throughput is not None
    assert result.estimates is not None
    return RunSummary(
        throughput=result.throughput,
        estimates={
            "mean_of_rates": result.estimates.mean_of_rates,
            "median_step": result.estimates.median_of_rates,
        },
        step_seconds=tuple(
            span.seconds / (span.last_step - span.first_step + 1)
            for span in result.spans
            for _ in range(span.first_step, span.last_step + 1)
        ),
        steps_are_relative=result.kept is not None and not result.kept.knows_work.all(),
        ranks=(),
        peak_memory_bytes=None,
        time_to_first_step_s=None,
        canary={},
        others_cpu_share=None,
        data_wait_share=result.data_wait_share,
        problems=result.problems,
        log=result.path,
    )


def _in_turns(summary: RunSummary, result: LogResult, cut: Cut, run: Run) -> RunSummary:
    """Return the summary of a log that was cut by turns, with the first iteration of each turn.

    The whole window is that of the turns: records that count have too few of its stalls. Turns of
    both arms are compared by their place, so that each has those that ``run`` says count.
    """
    counted = [turn.number for turn in run.timed_turns if turn.counts]
    assert [turn.number for turn in cut.turns] == counted, (cut.turns, counted)
    whole_s = sum(turn.seconds for turn in cut.whole)
    iterations = sum(turn.iterations for turn in cut.whole)
    ends = itertools.accumulate(turn.iterations for turn in cut.turns)
    steps = len(summary.step_seconds)
    work = sum(span.work for span in result.spans) * (result.world_size or 1) / steps
    message = (
        f"turns were given by time, as a log does not say when a step ends: {cut.left_out} of "
        f"{cut.iterations} measured iterations do not count, those at the begin of a turn and in "
        "turns that one arm alone has; the whole window is by the seconds of the turns"
    )
    note = Problem(code="turns-by-time", message=message)
    return replace(
        summary,
        throughput=work * iterations / whole_s,
        estimates={
            **summary.estimates,
            "median_step": work / statistics.median(summary.step_seconds),
        },
        turns=(0, *ends)[:-1],
        problems=(*summary.problems, note),
    )


def _unreadable(case: Case, run: Run, result: LogResult, options: OptionNames) -> CaseError:
    why = "; ".join(problem.message for problem in result.problems)
    if result.format is not None and not case.log_format:
        why += f" (it looks like the format {result.format!r})"
    name = result.format or (case.log_format if isinstance(case.log_format, str) else None)
    mark = _MARKS.get(name or "", "pytest_dlperf.mark.step")
    say = (
        "Say in the marker what a line of it is "
        '(log_format=pattern(r"…"), or the name of a format)'
        if options == OF_PYTEST
        else f"Name its format with {options.typed('log-format')}"
    )
    return CaseError(
        f"the program ended, and its log gives no throughput: {why}. {say}, or mark the steps "
        f"with {mark}.",
        subject=case.id,
        remarks=_log(run),
    )


def _log(run: Run) -> str:
    return log_remark(run.log, log_end(Path(run.log)))


def check_program(case: Case, run: Run, records: Sequence[RankRecords]) -> None:
    """Raise ``CaseError`` if the marks of a program that exited with 0 cannot be a training."""
    _check_ranks(case, run, records)
    _check_length(case, run, records)
    _check_trained(case, records)


def _check_ranks(case: Case, run: Run, records: Sequence[RankRecords]) -> None:
    by_rank = {rank.rank: rank for rank in records}
    for rank, processes in read_conflicts(Path(run.plan.records)).items():
        if rank in by_rank:
            processes = (process_of(by_rank[rank].by_kind.get("start", {})), *processes)
        raise CaseError(
            f"{len(processes)} processes marked as rank {rank} ({', '.join(processes)});"
            " give each its own RANK in the environment, or mark in one of them only",
            subject=case.id,
        )
    beyond = [str(rank) for rank in by_rank if rank >= case.ranks]
    if beyond:
        number = " ({world_size} in a word of the command is that number)"
        raise CaseError(
            f"the program marked as rank {', '.join(beyond)}, and {case.layout} has "
            f"ranks 0 to {case.ranks - 1} only; start as many as the layout says"
            f"{number if case.ranks == case.world_size else ''}",
            subject=case.id,
        )


def _check_length(case: Case, run: Run, records: Sequence[RankRecords]) -> None:
    """Raise if the program exited normally before it had marked enough steps."""
    if all(rank.wrote("end") or rank.wrote("failure") for rank in records):
        return
    done = min(progress.iterations for progress in read_progress(Path(run.plan.records)))
    raise CaseError(
        f"the program ended after {done} marked steps, and {case.protocol.iterations} "
        "are measured; let it train longer ({iterations} in a word of the command is that "
        "number), or lower iterations.",
        subject=case.id,
        remarks=_log(run),
    )


def _check_trained(case: Case, records: Sequence[RankRecords]) -> None:
    """Raise if the steps cannot have trained anything, unless a rank reported a loss."""
    if any(not r.wrote("end") or r.by_kind["loss"]["values"] for r in records):
        return
    step_s = max(_step_seconds(case, rank) for rank in records)
    if step_s < _NO_ROOM_S:
        why = f"a marked step lasts {step_s * 1e6:.2g} microseconds"
    elif not any(rank.by_kind["libraries"]["imported"] for rank in records):
        why = "no process that marks has imported a framework, nor numpy"
    else:
        return
    raise CaseError(
        f"the program trained nothing: {why}, and no step reported a loss; put the "
        "marks around the training, and if they are there, report its loss: with step() as s: …; "
        "s.loss(loss)",
        subject=case.id,
    )


def _step_seconds(case: Case, records: RankRecords) -> float:
    first, end = case.protocol.window
    steps = [s.seconds for s in records.spans if first <= s.first_step < end]
    # The GPU is synchronised at the window's end only: all its time may be in the last step.
    on_gpu = records.by_kind["memory"]["kind"] == "gpu-allocated"
    return statistics.fmean(steps) if on_gpu else statistics.median(steps)
