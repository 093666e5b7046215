"""Figures of scaling: medians over the runs of a case."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.run import CPU_SECONDS, own_seconds, skews, stored_scaling
from pytest_dlperf.report import figures
from pytest_dlperf.report.document import Grid, Mark

#: Runs from which a slow rank is named.
_FEWEST_RUNS: Final = 2
_HEADINGS: Final = ("case", "collectives of a step", "slowest rank", "all-reduce")
_REMARK: Final = (
    "sampled after the window: what collectives add to a step; by how much the slowest rank's own "
    "work is above that of the others; bytes over seconds by size of the message"
)


class ScalingFigures(NamedTuple):
    """One case; ``--`` for what is not known."""

    collectives: str
    slowest_rank: str
    all_reduce: str


def scaling_figures(outcome: Outcome) -> ScalingFigures | None:
    """Return the figures of a case of several ranks; None where nothing was sampled."""
    measurement, device = outcome.measurement, outcome.case.layout.device
    stored = stored_scaling(measurement.runs, device) if measurement is not None else None
    if measurement is None or stored is None:
        return None
    shares = stored.collectives_shares
    return ScalingFigures(
        collectives=f"{figures.percent(statistics.median(shares), sign=False)} ({stored.method})"
        if shares
        else figures.ABSENT,
        slowest_rank=_slowest_rank(outcome),
        all_reduce=_rates(stored.all_reduce_gb_per_s),
    )


def terminal_lines(outcomes: Sequence[Outcome]) -> list[str]:
    """Return a line for each case of several ranks."""
    measured = [(outcome, scaling_figures(outcome)) for outcome in outcomes]
    return [
        f"scaling: {outcome.case.id}: collectives {scaling.collectives} of a step; slowest "
        f"{scaling.slowest_rank}; all-reduce {scaling.all_reduce}"
        for outcome, scaling in measured
        if scaling is not None
    ]


def scaling_grid(outcomes: Sequence[Outcome]) -> Grid | None:
    """Return the table of the cases of several ranks; None without such a case."""
    rows = tuple(
        (Mark(text=outcome.case.id), *(Mark(text=text) for text in scaling))
        for outcome in outcomes
        if (scaling := scaling_figures(outcome)) is not None
    )
    if not rows:
        return None
    return Grid(heading="Scaling", headings=_HEADINGS, rows=rows, remark=_REMARK)


class RankSkews(NamedTuple):
    """How far each rank is from the others in what it does itself."""

    #: What their time was taken from: see ``core/run.py``.
    basis: str
    #: Own seconds over the median of the others' - 1, by rank: medians over the runs.
    above: Mapping[int, float]


def rank_skews(outcome: Outcome) -> RankSkews | None:
    """Return the skews of a case's ranks; None for one rank, and where too few runs tell."""
    if outcome.measurement is None:
        return None
    runs, device = outcome.measurement.runs, outcome.case.layout.device
    # In a single run a rank that was slow once looks like one that always is.
    basis, by_rank = own_seconds(runs, device, fewest=_FEWEST_RUNS)
    ranks = set(by_rank[0]) if by_rank else set()
    by_run = [skews(seconds) for seconds in by_rank if set(seconds) == ranks]
    if len(by_run) < _FEWEST_RUNS:
        return None
    return RankSkews(
        basis=basis,
        above={
            rank: math.expm1(statistics.median(run[rank] for run in by_run))
            for rank in sorted(ranks)
        },
    )


def _slowest_rank(outcome: Outcome) -> str:
    assert outcome.measurement is not None
    rank_skew = rank_skews(outcome)
    if rank_skew is None:
        return figures.ABSENT
    slowest = max(rank_skew.above, key=rank_skew.above.__getitem__)
    ranks = outcome.measurement.runs[-1].ranks
    node = next((rank.node for rank in ranks if rank.rank == slowest), "")
    of = ", CPU time" if rank_skew.basis == CPU_SECONDS else ""
    above = figures.percent(rank_skew.above[slowest])
    return f"rank {slowest}{f' on {node}' if node else ''}: {above}{of}"


def _rates(by_bytes: Mapping[str, float]) -> str:
    sizes = sorted(by_bytes, key=int)
    if not sizes:
        return figures.ABSENT
    return ", ".join(f"{_size(int(size))} {by_bytes[size]:.3g} GB/s" for size in sizes)


def _size(count: int) -> str:
    return f"{count // 2**20} MiB" if count >= 2**20 else f"{count // 2**10} KiB"
