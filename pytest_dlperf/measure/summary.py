"""Turns the records of a run's ranks into its summary; raises if they do not agree."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.metric import Figure
from pytest_dlperf.core.metrics import EVERY_CASE, METRICS, built_in, missing
from pytest_dlperf.core.run import (
    MeasuredRun,
    Problem,
    RankSummary,
    Run,
    RunSummary,
    Span,
)
from pytest_dlperf.core.wire import RECORDS_FORMAT
from pytest_dlperf.core.wire_records import ImportsRecord, RunFacts, WindowRecord
from pytest_dlperf.measure.arithmetic import arithmetic_figures, energy_figures, plausible
from pytest_dlperf.measure.checks import (
    DATA_BOUND,
    between_steps,
    check_agreement,
    check_declared,
    check_devices,
    checked_in_part,
    clocks_disagree,
    drift,
    host_waits,
    parameter_count,
    phases_left_out,
    unchecked,
    wait_cost,
)
from pytest_dlperf.measure.compile_figures import compile_extras, cuda_graphs_skipped, recompiled
from pytest_dlperf.measure.disturbance import disturbance, gpu_disturbance
from pytest_dlperf.measure.failure import failure_of
from pytest_dlperf.measure.records import RankRecords, read_records
from pytest_dlperf.measure.scaling import scaling_of, unsampled

_HOROVOD_ON_THE_HOST: Final = frozenset({"horovod-gloo", "horovod-mpi"})


def summarise(case: Case, run: Run) -> MeasuredRun:
    """Return what ``run`` measured, and what its ranks reported of themselves.

    Raises ``CaseError`` if a rank failed, is missing, or does not agree with the others.
    """
    records = _checked_records(case, run)
    window = _window_of(case, records)
    steps = tuple(span.seconds for span in window.spans)
    measured = steps[case.protocol.warmup :]
    shares, reason = disturbance(records, on_gpus=case.layout.device == "gpu")
    device_ids = [rank.by_kind["framework"]["device_id"] for rank in records]
    gpu_figures, gpu_reason = gpu_disturbance(run.plan.workdir, device_ids)
    turns = _turns(records)
    arithmetic, implausible = plausible(arithmetic_figures(case, records, window.seconds))
    steal = {"steal_share": shares["steal"]} if "steal" in shares else {}
    summary = RunSummary(
        throughput=window.rate,
        estimates={
            "mean_of_rates": statistics.fmean(
                work / step for work, step in zip(window.work, measured, strict=True)
            ),
            "median_step": statistics.fmean(window.work) / statistics.median(measured),
        },
        step_seconds=steps,
        ranks=tuple(_rank_summary(case, r) for r in records),
        peak_memory_bytes=max(r.by_kind["memory"]["bytes"] for r in records) or None,
        time_to_first_step_s=max(r.by_kind["first_step"]["time"] for r in records)
        - run.started_at_s
        - max(r.by_kind.get("data", {}).get("alone_seconds", 0.0) for r in records),
        canary=_canary(records),
        canary_by_node={
            node: _canary([r for r in records if r.by_kind["start"]["node"] == node])
            for node in sorted({r.by_kind["start"]["node"] for r in records})
        },
        turns=turns,
        others_cpu_share=shares.get("others"),
        disturbed=reason or gpu_reason,
        data_wait_share=window.data_wait_share,
        data_wait_seconds=_waits(window.spans),
        problems=(
            *drift(
                measured, case.protocol.window[0], window.rate, case.unit or "samples",
                case.layout.device,
            ),
            *implausible,
            *_problems(case, run, records, window),
        ),
        elapsed_s=run.elapsed_s,
        log=run.log,
        folder=run.plan.workdir,
        extras={
            **steal,
            **gpu_figures,
            "cpu_seconds_of_ranks": sum(_cpu_seconds(r.by_kind["window"]) for r in records),
            **_left_out(records),
            **_counted(records),
            **compile_extras(records),
            **_reserved(records),
            **_reading(records),
            **_waiting(records),
            **arithmetic,
            # In turns with another arm the GPU's energy is that of both
            **({} if turns else energy_figures(case, gpu_figures, window.rate)),
        },
        metrics=own_metrics(case, records),
        scaling=scaling_of(records),
    )  # fmt: skip
    asked = built_in(case.metrics, summary, case.protocol.window)
    unknown = tuple(
        Problem(
            code="metric-unknown",
            message=f"metric {name} is gated, and this run has none, so nothing is compared: it "
            f"needs {needs}",
        )
        for name, needs in missing(case.metrics, asked).items()
    )
    metrics = {**summary.metrics, **asked}
    summary = replace(summary, metrics=metrics, problems=summary.problems + unknown)
    return MeasuredRun(summary, _facts(case, records, window))


def _checked_records(case: Case, run: Run) -> tuple[RankRecords, ...]:
    """Return the records of every rank, of a training that is whole and right."""
    records = read_records(Path(run.plan.records))
    complete = {r.rank for r in records if r.wrote("end")} == set(range(case.ranks))
    if not complete or any(r.wrote("failure") for r in records):
        raise failure_of(case, run, records)
    _check_whole(case, run, records)
    # The model of a user's own program is not looked into, and its GPU is only the current one
    if case.command:
        check_declared(case, records)
    else:
        check_devices(case, records)
        check_agreement(case, records)
    return records


@dataclass(frozen=True, kw_only=True)
class _Window:
    """The measured iterations: the time of the slowest rank, and the work of all."""

    #: All spans of the slowest rank, those before the window too.
    spans: tuple[Span, ...]
    seconds: float
    #: Of each measured iteration, in the unit of the case.
    work: tuple[float, ...]
    #: Of the slowest rank's time; None where that is not known.
    data_wait_share: float | None

    @property
    def rate(self) -> float:
        """Work a second."""
        return sum(self.work) / self.seconds


def _window_of(case: Case, records: Sequence[RankRecords]) -> _Window:
    slowest = max(records, key=lambda r: _window_seconds(case, r))
    seconds = _window_seconds(case, slowest)
    waits = [span.data_wait_seconds for span in _window(case, slowest.spans)]
    return _Window(
        spans=tuple(slowest.spans),
        seconds=seconds,
        work=tuple(sum(r.spans[i].work for r in records) for i in range(*case.protocol.window)),
        data_wait_share=None
        if None in waits
        else sum(wait for wait in waits if wait is not None) / seconds,
    )


def _problems(
    case: Case, run: Run, records: Sequence[RankRecords], window: _Window
) -> Iterator[Problem]:
    yield from recompiled(records)
    yield from cuda_graphs_skipped(records)
    yield from clocks_disagree(case.protocol.window, records)
    yield from host_waits(case.protocol.window, records)
    yield from _ending(run)
    if case.command:
        yield from between_steps(window.data_wait_share)
        yield from phases_left_out(records)
    else:
        yield from _data_bound(case, records, window.data_wait_share, window.rate)
    yield from _without_nccl(case, records)
    yield from unsampled(records)
    yield from checked_in_part(records) if case.command else unchecked(case, records)


def own_metrics(case: Case, records: Sequence[RankRecords]) -> dict[str, Figure]:
    """Return the metrics that ranks reported, each of its worst rank.

    Raises ``CaseError`` where two ranks give one name another unit or direction, and for a name
    that a metric of pytest-dlperf has.
    """
    metrics: dict[str, tuple[int, Figure]] = {}
    for rank in records:
        for name, value in rank.by_kind.get("metrics", {"values": {}})["values"].items():
            if name in METRICS or name in EVERY_CASE:
                raise CaseError(
                    f"metric {name} is a built-in name; give yours another", subject=case.id
                )
            better: Literal["lower", "higher"] = (
                "higher" if value["better"] == "higher" else "lower"
            )
            figure = Figure(value=value["value"], unit=value["unit"], better=better)
            first, worst = metrics.setdefault(name, (rank.rank, figure))
            if (worst.unit, worst.better) != (figure.unit, figure.better):
                raise CaseError(
                    f"metric {name} has unit {worst.unit!r}, better {worst.better!r} "
                    f"on rank {first}, and unit {figure.unit!r}, better {figure.better!r} on rank "
                    f"{rank.rank}; give it one meaning on all ranks",
                    subject=case.id,
                )
            is_worse = (
                figure.value > worst.value if better == "lower" else figure.value < worst.value
            )
            metrics[name] = (first, figure if is_worse else worst)
    return {name: worst for name, (_, worst) in metrics.items()}


def _reserved(records: Sequence[RankRecords]) -> dict[str, float]:
    """Return the reserved memory of the largest rank; nothing where a rank does not know it."""
    amounts = [
        float(reserved)
        for rank in records
        if (reserved := rank.by_kind["memory"].get("reserved_bytes")) is not None
    ]
    return {"reserved_bytes": max(amounts)} if len(amounts) == len(records) else {}


def _cpu_seconds(window: WindowRecord) -> float:
    """Return the CPU seconds of a rank and its processes in its measured iterations."""
    return window["own_cpu_seconds"] - window.get("left_out_cpu_seconds", 0.0)


def _left_out(records: Sequence[RankRecords]) -> dict[str, float]:
    """Return the longest time of phases that a rank's window leaves out; nothing without any."""
    known = [math.fsum(rank.by_kind["window"].get("left_out", {}).values()) for rank in records]
    return {"left_out_seconds": max(known)} if any(known) else {}


def _turns(records: Sequence[RankRecords]) -> tuple[int, ...]:
    found = {
        tuple(rank.by_kind["turns"]["first_steps"]) for rank in records if rank.wrote("turns")
    }
    return found.pop() if len(found) == 1 else ()


def _facts(case: Case, records: Sequence[RankRecords], window: _Window) -> RunFacts:
    first = records[0].by_kind
    facts = RunFacts(framework=first["framework"], start=first["start"])
    if "model" in first:
        facts["model"] = first["model"]
    if "arithmetic" in first:
        facts["arithmetic"] = first["arithmetic"]
    if "data" in first:
        facts["data"] = first["data"]
    if "settings" in first:
        facts["settings"] = first["settings"]
    if imports := [rank.by_kind["imports"] for rank in records if "imports" in rank.by_kind]:
        facts["imports"] = ImportsRecord(
            files={
                path: digest
                for rank_imports in imports
                for path, digest in rank_imports["files"].items()
            },
            copies={
                path: copy
                for rank_imports in imports
                for path, copy in rank_imports["copies"].items()
            },
            outside=sorted({path for rank_imports in imports for path in rank_imports["outside"]}),
            read=sorted({path for rank_imports in imports for path in rank_imports["read"]}),
            started_processes=any(rank_imports["started_processes"] for rank_imports in imports),
        )
    if not case.command:
        facts["model"] = {**facts["model"], "parameter_count": parameter_count(case, records)}
    amounts = {span.work for rank in records for span in _window(case, rank.spans)}
    if len(amounts) == 1:
        facts["work"] = amounts.pop()
    elif len(set(window.work)) == 1:
        # Ranks that share a batch say their parts of it, and the rate is of their sum
        facts["work"] = window.work[0] / len(records)
    return facts


def _window(case: Case, spans: Sequence[Span]) -> list[Span]:
    first, end = case.protocol.window
    return [span for span in spans if first <= span.first_step and span.last_step < end]


def _waits(spans: Sequence[Span]) -> tuple[float, ...]:
    known = [span.data_wait_seconds for span in spans if span.data_wait_seconds is not None]
    return tuple(known) if len(known) == len(spans) and any(known) else ()


def _window_seconds(case: Case, records: RankRecords) -> float:
    return sum(span.seconds for span in _window(case, records.spans))


def _check_whole(case: Case, run: Run, records: Sequence[RankRecords]) -> None:
    """Raise ``CaseError`` for records of another format, or with other spans than the window's."""
    first, end = case.protocol.window
    for rank in records:
        start = rank.by_kind["start"]
        if start["format"] != RECORDS_FORMAT:
            raise CaseError(
                f"rank {rank.rank} wrote records of format {start['format']}, this "
                f"pytest-dlperf reads {RECORDS_FORMAT}; use one version on both sides",
                subject=case.id,
            )
        if len(_window(case, rank.spans)) != end - first:
            raise CaseError(
                f"rank {rank.rank} wrote {len(_window(case, rank.spans))} spans for "
                f"the {end - first} measured iterations; see {run.plan.workdir}",
                subject=case.id,
            )
        for span in rank.spans:
            if min(span.seconds, span.data_wait_seconds or 0.0) < 0:
                raise CaseError(
                    f"rank {rank.rank} wrote a negative time of iteration "
                    f"{span.first_step}: {span.seconds:.3g} s, with a wait of "
                    f"{span.data_wait_seconds or 0.0:.3g} s before it; its steps overlap, or its "
                    f"clock went back. See {run.plan.workdir}",
                    subject=case.id,
                )


def _rank_summary(case: Case, records: RankRecords) -> RankSummary:
    cpu = [span.cpu_seconds for span in _window(case, records.spans)]
    values = records.by_kind["loss"]["values"]
    losses = [value for value in values if isinstance(value, int | float)]
    if len(losses) < len(values):
        raise CaseError(
            f"rank {records.rank} reported a loss that is not a finite number, so its "
            "speed means nothing",
            subject=case.id,
        )
    # A longer window than asked for shows more of the fall than its bands are made for
    losses = losses[: case.protocol.asked_iterations]
    if case.protocol.warmup_s:
        # How many iterations the warm-up had depends on the speed, which the loss must not
        losses = losses[: case.protocol.warmup - 1]
    count = max(3, len(losses) // 10)
    return RankSummary(
        rank=records.rank,
        node=records.by_kind["start"]["node"],
        seconds=_window_seconds(case, records),
        cpu_seconds=None if None in cpu else sum(c for c in cpu if c is not None),
        peak_memory_bytes=records.by_kind["memory"]["bytes"] or None,
        loss_first=losses[0] if losses else None,
        loss_last=statistics.fmean(losses[-count:]) if losses else None,
        device_id=records.by_kind["framework"]["device_id"],
    )


def _counted(records: Sequence[RankRecords]) -> dict[str, float]:
    """Return the sums over the ranks of what the kernel counted on every one."""
    ranks = [rank.by_kind["window"].get("counted", {}) for rank in records]
    return {
        f"{name}_of_ranks": sum(counted[name] for counted in ranks)
        for name in sorted(ranks[0])
        if all(name in counted for counted in ranks)
    }


def _canary(records: Sequence[RankRecords]) -> Mapping[str, float]:
    """Return the canary's rates on the slowest rank, each the mean of before and after."""
    rates: dict[str, list[float]] = {}
    for rank in records:
        for name in rank.canaries[0] if rank.canaries else ():
            values = [canary[name] for canary in rank.canaries]
            known = [value for value in values if value is not None]
            if known:
                rates.setdefault(name, []).append(statistics.fmean(known))
    return {name: min(values) for name, values in sorted(rates.items())}


def _ending(run: Run) -> list[Problem]:
    if run.exit_code == 0:
        return []
    how = "had to be ended" if run.exit_code is None else f"ended with {run.exit_code}"
    message = f"every rank finished its training, then the launcher {how}; see {run.log}"
    return [Problem(code="aborted-at-teardown", message=message)]


def _waiting(records: Sequence[RankRecords]) -> dict[str, float]:
    """Return what it costs that hosts wait for their GPUs; nothing where that was not measured."""
    known = [cost for rank in records if (cost := wait_cost(rank)) is not None]
    return {"host_wait_share": max(known)} if known else {}


def _reading(records: Sequence[RankRecords]) -> dict[str, float]:
    """Return the work per second that the readers give alone; nothing where it is unknown.

    An iteration of all ranks takes as many batches as the training took.
    """
    per_s = 0.0
    for rank in records:
        data = rank.by_kind.get("data")
        if data is None or not data.get("batches_per_iteration") or "alone_seconds" not in data:
            return {}
        iterations = data["alone_batches"] / data["batches_per_iteration"]
        work = statistics.fmean(span.work for span in rank.spans)
        per_s += work * iterations / data["alone_seconds"]
    return {"reader_alone_per_s": per_s} if records else {}


def _data_bound(
    case: Case, records: Sequence[RankRecords], waited: float | None, rate: float
) -> list[Problem]:
    if waited is None or waited <= DATA_BOUND:
        return []
    unit = case.unit or "samples"
    message = f"{waited:.0%} of the time went into waiting for data"
    for alone in _reading(records).values():
        workers = records[0].by_kind["data"].get("workers", 0)
        message += (
            f"; without a training the readers give {alone:.4g} {unit}/s ({workers} workers a "
            f"rank), and with it {rate:.4g} {unit}/s were trained"
        )
        if alone < rate * (1 + DATA_BOUND):
            message += ": reading is what is measured (docs/data.md says how to read faster)"
    return [Problem(code="data-bound", message=message)]


def _without_nccl(case: Case, records: Sequence[RankRecords]) -> list[Problem]:
    framework = records[0].by_kind["framework"]
    backend: str | None = framework.get("backend")
    if case.layout.device != "gpu" or backend not in _HOROVOD_ON_THE_HOST:
        return []
    message = (
        f"Horovod {framework.get('horovod', '')} does not use NCCL: gradients of the GPUs go "
        f"through {backend.removeprefix('horovod-')}; build it again with "
        "HOROVOD_GPU_OPERATIONS=NCCL (docs/tensorflow.md)"
    )
    return [Problem(code="all-reduce-without-nccl", message=message)]
