"""Checks of a run's records: ranks trained one model, host and GPU agree, steps were steady."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.layout import DeviceKind
from pytest_dlperf.core.run import Problem
from pytest_dlperf.core.stretch import most_different
from pytest_dlperf.core.wire_model import DTYPE_OF_PRECISION, SHORTER_DTYPES, Checksum
from pytest_dlperf.core.wire_records import runs_ahead_seldom
from pytest_dlperf.measure.records import RankRecords

#: Share of the window above which what is no training is said: waits, and phases.
DATA_BOUND: Final = 0.10


def check_agreement(case: Case, records: Sequence[RankRecords]) -> None:
    """Raise ``CaseError`` if ranks differ in what they must share, or share what they must not."""
    declared = all(rank.by_kind["checksum"]["value"] for rank in records)
    if case.world_size > 1 and not declared:
        raise CaseError(
            "no replicated parameters were declared, so nothing shows that gradients "
            "are averaged; use job.data_parallel(model), or job.replicated(parameters), or "
            "job.replicated([]) if the ranks share none",
            subject=case.id,
        )
    for ranks in _stages(case, records):
        _check_digests(case, ranks)
        _check_parameters(case, ranks)
    _check_count(case, records)
    _check_samples(case, records)


def check_declared(case: Case, records: Sequence[RankRecords]) -> None:
    """Raise ``CaseError`` if parameters that a user's own program declared differ by rank."""
    for ranks in _stages(case, [rank for rank in records if rank.wrote("checksum")]):
        _check_digests(case, ranks)


def _stages(case: Case, records: Sequence[RankRecords]) -> list[list[RankRecords]]:
    """Return the ranks of each stage: those of a pipeline hold other parameters."""
    stages: dict[int, list[RankRecords]] = {}
    for rank in records:
        stages.setdefault(case.parallelism.stage(rank.rank), []).append(rank)
    return list(stages.values())


def parameter_count(case: Case, records: Sequence[RankRecords]) -> int:
    """Return how many parameters the model of a replica has: each shard and each stage once."""
    places: dict[tuple[int, str], int] = {}
    for rank in records:
        model = rank.by_kind["model"]
        # Frameworks without sharded tensors report the number alone
        for place, count in model.get("held", {"": model["parameter_count"]}).items():
            places[case.parallelism.stage(rank.rank), place] = count
    return sum(places.values())


def _check_count(case: Case, records: Sequence[RankRecords]) -> None:
    """Raise ``CaseError`` unless the shards add up to the parameters that the case declares."""
    found = parameter_count(case, records)
    if case.parameters is not None and found != case.parameters:
        raise CaseError(
            f"the parameters of a replica add up to {found}, each shard and each stage "
            f"counted once, and the case declares {case.parameters}; a part of the model is "
            "missing or counted more than once: tensors that are split by hand are to be declared "
            "by job.sharded(parameters), and modules of a rank by job.modules",
            subject=case.id,
        )


def check_devices(case: Case, records: Sequence[RankRecords]) -> None:
    """Raise ``CaseError`` if two ranks of a node trained on one GPU, where that is known."""
    ranks: dict[tuple[str, str], int] = {}
    for rank in records:
        device_id = rank.by_kind["framework"].get("device_id")
        if not device_id:
            continue
        other = ranks.setdefault((rank.by_kind["start"]["node"], device_id), rank.rank)
        if other != rank.rank:
            raise CaseError(
                f"ranks {other} and {rank.rank} trained on one GPU, {device_id}; give "
                "each rank a GPU of its own: look at CUDA_VISIBLE_DEVICES of every rank",
                subject=case.id,
            )


def _check_digests(case: Case, records: Sequence[RankRecords]) -> None:
    """Raise ``CaseError`` unless ranks that hold the same parameters have the same numbers."""
    values = [(rank.rank, rank.by_kind["checksum"]["value"]) for rank in records]
    checksums: list[tuple[int, Checksum]] = [(rank, value) for rank, value in values if value]
    whole = {(checksum["digest"], checksum["tensors"]) for _, checksum in checksums}
    if len(whole) > 1 or _shards_differ([checksum for _, checksum in checksums]):
        digests = ", ".join(
            f"rank {rank}: "
            f"{(checksum if len(whole) > 1 else checksum.get('shards', checksum))['digest']}"
            for rank, checksum in checksums
        )
        raise CaseError(
            f"the replicated parameters differ between ranks after training ({digests})"
            "; gradients are not averaged over the ranks, so the ranks train different models",
            subject=case.id,
        )


def _check_parameters(case: Case, records: Sequence[RankRecords]) -> None:
    """Raise ``CaseError`` unless the ranks of a stage have as many parameters."""
    counts: dict[str, set[int]] = {}
    for rank in records:
        model = rank.by_kind["model"]
        for place, count in model.get("held", {"": model["parameter_count"]}).items():
            counts.setdefault(place, set()).add(count)
    for numbers in counts.values():
        if len(numbers) > 1:
            raise CaseError(
                f"ranks have different numbers of parameters: {sorted(numbers)}", subject=case.id
            )


def _shards_differ(checksums: Sequence[Checksum]) -> bool:
    """Return whether two ranks that hold the same shards of parameters hold other numbers."""
    if len({"shards" in checksum for checksum in checksums}) > 1:
        return True
    shards = [checksum["shards"] for checksum in checksums if "shards" in checksum]
    numbers = {(shard["place"], shard["digest"], shard["tensors"]) for shard in shards}
    return len(numbers) > len({shard["place"] for shard in shards})


def _check_samples(case: Case, records: Sequence[RankRecords]) -> None:
    """Raise ``CaseError`` if two replicas begin with the same samples, where those are known.

    Or if ranks of one replica do not.
    """
    replica_of = case.parallelism.replica
    readers: dict[int, int] = {}
    batches: dict[int, tuple[int, list[int]]] = {}
    for rank in records:
        samples = sorted(rank.by_kind.get("data", {}).get("first_samples") or ())
        if not samples:
            continue
        for sample in samples:
            reader = readers.setdefault(sample, rank.rank)
            if replica_of(reader) != replica_of(rank.rank):
                raise CaseError(
                    f"ranks {reader} and {rank.rank} both read sample {sample} in their "
                    "first batch; each rank must read its own samples, through the "
                    "framework's distributed sampler",
                    subject=case.id,
                )
        reader, first_samples = batches.setdefault(replica_of(rank.rank), (rank.rank, samples))
        if samples != first_samples:
            raise CaseError(
                f"ranks {reader} and {rank.rank} share a batch ({case.parallel}), and "
                "begin with other samples; read those of the replica, through job.loader(dataset)",
                subject=case.id,
            )


#: What a rank reports of the clock that times its laps.
_EVENTS: Final = "device events"
#: Share by which the device's events and the host's clock may differ over a window, and the
#: seconds that the begin and the end of a window take on the host.
_CLOCKS: Final = 0.02
_EDGES_S: Final = 0.02


def clocks_disagree(steps: tuple[int, int], records: Sequence[RankRecords]) -> list[Problem]:
    """Return the problem of laps by a device's events that do not add up to the host's window.

    ``steps`` is the measured window. Events are on the current stream: work that a step puts on
    another stream, and does not wait for, is in no lap.
    """
    for rank in records:
        framework, window = rank.by_kind["framework"], rank.by_kind["window"]
        if framework.get("timing") != _EVENTS:
            continue
        first, end = steps
        laps_s = math.fsum(s.seconds for s in rank.spans if first <= s.first_step < end)
        seconds = window["seconds"] - math.fsum(window.get("left_out", {}).values())
        turns = len(rank.by_kind["turns"]["first_steps"]) if rank.wrote("turns") else 1
        if abs(seconds - laps_s) > _CLOCKS * seconds + _EDGES_S * turns:
            message = (
                f"the device's events say that the window took {laps_s:.3g} s of rank "
                f"{rank.rank}, the host's clock says {seconds:.3g} s; a step that leaves work on "
                "another stream must let the current stream wait for it"
            )
            return [Problem(code="clocks-disagree", message=message)]
    return []


def host_waits(steps: tuple[int, int], records: Sequence[RankRecords]) -> list[Problem]:
    """Return the problem of a host that queues nothing ahead of its GPU.

    Then the GPU is idle, in each step, until the host gives it the next one.
    """
    first, end = steps
    for rank in records:
        framework, window = rank.by_kind["framework"], rank.by_kind["window"]
        ahead = window.get("steps_ahead")
        if framework.get("timing") != _EVENTS or ahead is None:
            continue
        within = rank.by_kind.get("waits", {}).get("within", False)
        if not within and not runs_ahead_seldom(ahead, end - first):
            continue
        cause = (
            "step() returns its loss as a number or in the host's memory, for which the host "
            "waits each time; return the GPU's tensor"
            if window.get("host_losses")
            else "a step that reads a number from the GPU waits for it (.item(), a loss scaler "
            "whose optimizer is not fused), or the host needs as long as the GPU for a step"
        )
        what = (
            f"rank {rank.rank} waits for its GPU in the midst of each step, which then waits for "
            "the host"
            if within
            else f"rank {rank.rank} ran ahead of its GPU in {ahead} of {end - first} steps, so "
            "that the GPU waits for the host in each of the others"
        )
        message = f"{what}{wait_cost_words(rank)}: {cause}"
        return [Problem(code="host-waits", message=message)]
    return []


def wait_cost(rank: RankRecords) -> float | None:
    """Return the least share of its steps for which a rank's GPU is idle; None if unknown."""
    found = rank.by_kind.get("waits", {})
    if "queued_seconds" not in found:
        return None
    return max(0.0, 1 - found["queued_seconds"] / found["step_seconds"])


def wait_cost_words(rank: RankRecords) -> str:
    """Return what the waits cost, for the sentence on them; empty where it is unknown."""
    found, cost = rank.by_kind.get("waits", {}), wait_cost(rank)
    if cost is None:
        return f", at an unknown cost ({found['problem']})" if "problem" in found else ""
    return (
        f", which costs {cost:.1%} of a step at least ({1000 * found['queued_seconds']:.4g} ms "
        f"where it is queued in time, {1000 * found['step_seconds']:.4g} ms as it is)"
    )


#: Halves of a window whose median steps differ by less are one steady state, as a share. The
#: bound for GPUs is an assumption: there are no recordings yet that show it.
DRIFT: Final[Mapping[DeviceKind, float]] = {"cpu": 0.10, "gpu": 0.03}
_BATCHES: Final = 10
#: The fewest batches on either side of a split. That noise separates batches completely at one
#: of these splits has a chance of 2 % or less a split.
_FEWEST: Final = 3


def median_halves(measured: Sequence[float]) -> tuple[float, float]:
    """Return the median steps of both halves of a window, in seconds."""
    half = len(measured) // 2
    return statistics.median(measured[:half]), statistics.median(measured[half:])


def is_level(measured: Sequence[float], device: DeviceKind) -> bool:
    """Whether the halves of a window are one steady state."""
    before, after = median_halves(measured)
    return abs(math.log(after / before)) <= math.log1p(DRIFT[device])


def drift(
    measured: Sequence[float], first: int, throughput: float, unit: str, device: DeviceKind
) -> list[Problem]:
    """Return the problem ``drift`` if the steps of a window became slower or faster over it.

    ``measured`` are the window's steps in seconds, the first is iteration ``first``. The medians
    of the halves differ beyond the bound, and medians of ten batches show a trend or a level
    that changed: one burst of noise is neither. A window of fewer than ten steps has no problem.
    """
    if len(measured) < _BATCHES:
        return []
    if is_level(measured, device) or not _has_trend(measured):
        return []
    before, after = median_halves(measured)
    message = (
        f"the median step went from {before:.4g} s in the first half of the window to "
        f"{after:.4g} s in the second"
    )
    if stretch := most_different(measured, first):
        message += f": {stretch.words(throughput, unit)}"
    return [Problem(code="drift", message=message)]


def _has_trend(measured: Sequence[float]) -> bool:
    count = len(measured)
    edges = [round(i * count / _BATCHES) for i in range(_BATCHES + 1)]
    batches = [statistics.median(measured[a:b]) for a, b in itertools.pairwise(edges)]
    splits = range(_FEWEST, _BATCHES - _FEWEST + 1)
    return any(
        max(batches[:at]) < min(batches[at:]) or min(batches[:at]) > max(batches[at:])
        for at in splits
    )


def between_steps(share: float | None) -> list[Problem]:
    """Return the problem of a marked program whose time goes by between its steps.

    ``share`` is that of the window. What the program did there is not known.
    """
    if share is None or share <= DATA_BOUND:
        return []
    message = (
        f"{share:.0%} of the time went by between two marked steps: the next batch, or an "
        "evaluation, a checkpoint or a log; pytest_dlperf.mark.phase around those "
        "leaves them out of the rate"
    )
    return [Problem(code="between-steps", message=message)]


def phases_left_out(records: Sequence[RankRecords]) -> list[Problem]:
    """Return which phases the window of the rank with most of them leaves out of the rate.

    Where another rank leaves out less, it may have waited for that one in its own steps.
    """

    def left_s(rank: RankRecords) -> float:
        return math.fsum(rank.by_kind["window"].get("left_out", {}).values())

    most, least = max(records, key=left_s), min(records, key=left_s)
    window = most.by_kind["window"]
    if left_s(most) <= DATA_BOUND * window["seconds"]:
        return []
    phases = window.get("left_out", {})
    names = " and ".join(f"{name} ({seconds:.3g} s)" for name, seconds in phases.items())
    message = (
        f"{left_s(most) / window['seconds']:.0%} of the time from the first measured step to the "
        f"last went into phases between steps, which are not in the rate: {names}"
    )
    if left_s(most) - left_s(least) > DATA_BOUND * window["seconds"]:
        message += (
            f"; that is of rank {most.rank}, and rank {least.rank} left {left_s(least):.3g} s "
            "out: where it waits for the other, the wait is in its steps, so put the phase on "
            "every rank, around that wait"
        )
    return [Problem(code="left-out", message=message)]


def checked_in_part(records: Sequence[RankRecords]) -> list[Problem]:
    """Return what was not looked at of a user's own program that asked for checks."""
    reasons = (
        rank.by_kind["checksum"].get("unwatched") for rank in records if rank.wrote("checksum")
    )
    if reason := next(filter(None, reasons), None):
        message = f"parameters were compared, and the precision was not looked at: {reason}"
        return [Problem(code="checked-in-part", message=message)]
    return []


def unchecked(case: Case, records: Sequence[RankRecords]) -> list[Problem]:
    """Return what could not be looked at: the batch, the precision, or parts of it."""
    model = records[0].by_kind["model"]
    problems = []
    unwatched = model.get("unwatched")
    if not model["input_shapes"]:
        problems.append(
            Problem(
                code="batch-unchecked",
                message="the model's inputs were not looked at"
                if unwatched
                else "the model was given no tensor of a known shape in the first iteration; give "
                "the batch to job.data_parallel(model)",
            )
        )
    if uncounted := _uncounted(records):
        problems.append(_partly_unchecked(case, model["flops_by_dtype"], uncounted))
    elif not model["flops_by_dtype"]:
        problems.append(
            Problem(
                code="precision-unchecked",
                message=f"its arithmetic was not looked at: {unwatched}"
                if unwatched
                else "no matrix product or convolution was seen in the second iteration; put the "
                "model's arithmetic where it can be seen, into job.data_parallel(model); of a "
                "CUDA graph, what torch.cuda.graph captures is seen",
            )
        )
    return problems


#: What is not said of a training with operators that nothing counts, by its framework.
_LEFT_OUT: Final = {
    "torch": ", and TFLOP/s, HFU and MFU are left out. register_flop_formula of "
    "torch.utils.flop_counter makes an operator known; flops_per_unit in the marker gives MFU",
    "jax": ", and TFLOP/s, HFU and MFU are left out; flops_per_unit in the marker gives MFU",
}


def _uncounted(records: Sequence[RankRecords]) -> dict[str, set[str]]:
    """Return the operators that some rank could not count, with the dtypes they were given."""
    found: dict[str, set[str]] = {}
    for rank in records:
        for name, dtypes in rank.by_kind["model"].get("uncounted", {}).items():
            found.setdefault(name, set()).update(dtypes)
    return found


def _partly_unchecked(
    case: Case, flops: Mapping[str, int], uncounted: Mapping[str, set[str]]
) -> Problem:
    """Return what operators that cannot be counted leave open.

    The precision is open where they may have done most, or in fp32 and tf32 something in a
    shorter dtype. Else what was counted shows it.
    """
    given = set().union(*uncounted.values())
    is_long = case.precision in {"fp32", "tf32"}
    most = max(flops.values(), default=0) * 2 > sum(flops.values())
    counted = max(flops, key=lambda dtype: flops[dtype]) if most else ""
    expected = DTYPE_OF_PRECISION[case.precision]
    is_open = given.intersection(SHORTER_DTYPES) if is_long else counted != expected
    words = ", ".join(
        f"{name} (given {', '.join(sorted(dtypes))})" if dtypes else name
        for name, dtypes in sorted(uncounted.items())
    )
    return Problem(
        code="precision-unchecked" if is_open or not flops else "checked-in-part",
        message=f"the second iteration ran {words}, which nothing here can count: the precision "
        f"was looked at in the other operators alone{_LEFT_OUT.get(case.framework, '')}",
    )
