"""From the ranks' records to what a run tells of its scaling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_dlperf.core.run import Problem
from pytest_dlperf.core.scaling import RankScaling, Scaling

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_dlperf.measure.records import RankRecords


def scaling_of(records: Sequence[RankRecords]) -> Scaling | None:
    """Return what the ranks told of scaling; None for one rank, and for a user's own program."""
    told = [rank for rank in records if "collectives" in rank.by_kind]
    if len(told) != len(records) or not told:
        return None
    ranks = tuple(_rank(rank) for rank in told if "problem" not in rank.by_kind["collectives"])
    return Scaling(
        method=next((rank.by_kind["collectives"].get("method", "") for rank in told), ""),
        collective=next(
            (rank.by_kind["collectives"].get("collective", "all-reduce") for rank in told), ""
        ),
        ranks=ranks,
        collectives_share=_share(ranks) if len(ranks) == len(records) else None,
        all_reduce_gb_per_s=_slowest([rank.by_kind["all_reduce"]["gb_per_s"] for rank in told]),
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
    told = records.by_kind["collectives"]
    return RankScaling(
        rank=records.rank,
        node=records.by_kind["start"]["node"],
        step_seconds=told["step_seconds"],
        own_seconds=told["own_seconds"],
        collective_seconds=told["collective_seconds"],
    )


def _share(ranks: Sequence[RankScaling]) -> float | None:
    """Return the share of the rank that waits least: with its wait, others' slowness is in it.

    Of a timeline, that of the one rank that tells.
    """
    shares = [
        rank.collective_seconds / rank.step_seconds
        for rank in ranks
        if rank.collective_seconds is not None
    ]
    return min(1.0, *shares) if shares else None


def _slowest(rates: Sequence[Mapping[str, float]]) -> dict[str, float]:
    sizes = set.intersection(*(set(one) for one in rates))
    return {size: min(one[size] for one in rates) for size in sorted(sizes, key=int)}
