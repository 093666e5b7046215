"""What the ranks of a run measured of scaling: the time of collectives, and their rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_dlperf.core.run import Problem, RankScaling, Scaling
from pytest_dlperf.measure.records import RankRecords


def scaling_of(records: Sequence[RankRecords]) -> Scaling | None:
    """Return what the ranks measured of scaling.

    None for one rank, and for a user's own program.
    """
    if not records or not all(rank.wrote("collectives") for rank in records):
        return None
    sampled = [rank for rank in records if "problem" not in rank.by_kind["collectives"]]
    ranks = tuple(_rank(rank) for rank in sampled)
    first = records[0].by_kind["collectives"]
    return Scaling(
        method=first.get("method", ""),
        collective=first.get("collective", "all-reduce"),
        ranks=ranks,
        collectives_share=_share(ranks) if len(ranks) == len(records) else None,
        all_reduce_gb_per_s=_slowest([rank.by_kind["all_reduce"]["gb_per_s"] for rank in records]),
    )


def unsampled(records: Sequence[RankRecords]) -> list[Problem]:
    """Return the problem of a training that could not be asked for a few more iterations."""
    for rank in records:
        if problem := rank.by_kind.get("collectives", {}).get("problem"):
            message = (
                "the share of collectives is not known, as the workload could do no iteration "
                f"beyond the case's own (rank {rank.rank}: {problem})"
            )
            return [Problem(code="collectives-unknown", message=message)]
    return []


def _rank(records: RankRecords) -> RankScaling:
    sampled = records.by_kind["collectives"]
    return RankScaling(
        rank=records.rank,
        node=records.by_kind["start"]["node"],
        step_seconds=sampled["step_seconds"],
        own_seconds=sampled["own_seconds"],
        collective_seconds=sampled["collective_seconds"],
    )


def _share(ranks: Sequence[RankScaling]) -> float | None:
    """Return the share of the rank that waits least: waits are caused by slower ranks.

    Of a timeline, the share of the one rank that has it.
    """
    shares = [
        rank.collective_seconds / rank.step_seconds
        for rank in ranks
        if rank.collective_seconds is not None
    ]
    return min(1.0, *shares) if shares else None


def _slowest(rates: Sequence[Mapping[str, float]]) -> dict[str, float]:
    sizes = set.intersection(*(set(rank) for rank in rates))
    return {size: min(rank[size] for rank in rates) for size in sorted(sizes, key=int)}
