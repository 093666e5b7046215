"""Checks that the ranks of a run trained one model, each on samples of its own."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.wire_records import Checksum
from pytest_dlperf.measure.records import RankRecords


def check_agreement(case: Case, records: Sequence[RankRecords]) -> None:
    """Raise ``CaseError`` if ranks differ in what they must share, or share what they must not."""
    values = [rank.by_kind["checksum"]["value"] for rank in records]
    checksums = [(rank.rank, value) for rank, value in zip(records, values, strict=True) if value]
    if case.world_size > 1 and len(checksums) < len(records):
        raise CaseError(
            f"{case.id}: no replicated parameters were declared, so nothing shows that gradients "
            "are averaged; use job.data_parallel(model), or job.replicated(parameters), or "
            "job.replicated([]) if the ranks share none"
        )
    whole = {(found["digest"], found["tensors"]) for _, found in checksums}
    if len(whole) > 1 or _shards_differ([found for _, found in checksums]):
        digests = ", ".join(
            f"rank {rank}: {(found if len(whole) > 1 else found.get('shards', found))['digest']}"
            for rank, found in checksums
        )
        raise CaseError(
            f"{case.id}: the replicated parameters differ between ranks after training ({digests})"
            "; gradients are not averaged over the ranks, so the ranks train different models"
        )
    _check_samples(case, records)
    counts = {rank.by_kind["model"]["parameter_count"] for rank in records}
    if len(counts) > 1:
        raise CaseError(f"{case.id}: ranks have different numbers of parameters: {sorted(counts)}")


def _shards_differ(checksums: Sequence[Checksum]) -> bool:
    """Return whether two ranks that hold the same shards of parameters hold other numbers."""
    if len({"shards" in found for found in checksums}) > 1:
        return True
    shards = [found["shards"] for found in checksums if "shards" in found]
    found = {(one["place"], one["digest"], one["tensors"]) for one in shards}
    return len(found) > len({one["place"] for one in shards})


def _check_samples(case: Case, records: Sequence[RankRecords]) -> None:
    """Raise ``CaseError`` if two ranks begin with the same samples, where those are known."""
    readers: dict[int, int] = {}
    for rank in records:
        for sample in rank.by_kind.get("data", {}).get("first_samples") or ():
            other = readers.setdefault(sample, rank.rank)
            if other != rank.rank:
                raise CaseError(
                    f"{case.id}: ranks {other} and {rank.rank} both read sample {sample} in their "
                    "first batch; each rank must read its own samples, through the "
                    "framework's distributed sampler"
                )
