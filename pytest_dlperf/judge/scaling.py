"""Explains a lower speedup from the records of the ranks: a slow rank, or slower collectives.

It explains a verdict and never decides it. Only differences beyond noise are named.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from pytest_dlperf.core.layout import DeviceKind
from pytest_dlperf.core.run import CPU_SECONDS, RunSummary, StoredScaling, own_seconds, skews
from pytest_dlperf.judge.stats.contrast import quantile

#: A rank that is slower by less is not named, nor a share that grew by less (shares of 1).
_LEAST_SKEW: Final = 0.05
_LEAST_GROWTH: Final = 0.03
#: The same for a single run, whose noise is unknown.
_LEAST_GROWTH_OF_ONE: Final = 0.10
#: Where no share is stored, the smallest one that is named.
_LEAST_SHARE: Final = 0.05
#: Probability of naming a rank that is as fast as the others.
_ALPHA: Final = 0.01


def why(
    runs: Sequence[RunSummary], stored: Sequence[StoredScaling | None], device: DeviceKind
) -> str:
    """Return in words what makes devices wait; empty where nothing is beyond noise.

    ``stored`` is the scaling of each stored session; None where it is unknown.
    """
    before = [one for one in stored if one is not None]
    return ", ".join(
        words for words in (_slow_rank(runs, before, device), _collectives(runs, before)) if words
    )


def _collectives(runs: Sequence[RunSummary], stored: Sequence[StoredScaling]) -> str:
    sampled = [
        run.scaling for run in runs if run.scaling and run.scaling.collectives_share is not None
    ]
    now = [
        run_scaling.collectives_share
        for run_scaling in sampled
        if run_scaling.collectives_share is not None
    ]
    if not now:
        return ""
    share, method = statistics.median(now), sampled[0].method
    words = f"{sampled[0].collective} {_percent(share)} of the step"
    before = [
        value
        for session in stored
        if session.method == method
        for value in session.collectives_shares
    ]
    if not before:
        return words if share >= max(_LEAST_SHARE, 2 * _spread([now])) else ""
    was = statistics.median(before)
    noise = _spread([now, before]) * math.sqrt(1 / len(now) + 1 / len(before))
    least = _LEAST_GROWTH if len(now) > 1 else _LEAST_GROWTH_OF_ONE
    return f"{words}, was {_percent(was)}" if share - was > max(least, 2 * noise) else ""


def _spread(sides: Sequence[Sequence[float]]) -> float:
    """Return the standard deviation within sides; 0 where none has two values."""
    squares = [
        (value - statistics.fmean(side)) ** 2 for side in sides if len(side) > 1 for value in side
    ]
    freedom = sum(len(side) - 1 for side in sides)
    return math.sqrt(math.fsum(squares) / freedom) if freedom else 0.0


def _slow_rank(
    runs: Sequence[RunSummary], stored: Sequence[StoredScaling], device: DeviceKind
) -> str:
    # From one run a slow rank cannot be distinguished from noise
    basis, seconds = own_seconds(runs, device, fewest=2)
    if len(seconds) < 2:
        return ""
    ranks = set(seconds[0])
    if any(set(of_run) != ranks for of_run in seconds):
        return ""
    by_run = [skews(of_run) for of_run in seconds]
    means = {
        rank: statistics.fmean(skews_of_run[rank] for skews_of_run in by_run) for rank in ranks
    }
    slowest = max(means, key=means.__getitem__)
    spread = _spread([[skews_of_run[rank] for skews_of_run in by_run] for rank in sorted(ranks)])
    freedom = (len(seconds) - 1) * (len(ranks) - 1)
    error = spread / math.sqrt(len(seconds))
    low = means[slowest] - quantile(_ALPHA / len(ranks), freedom) * error
    share = math.expm1(means[slowest])
    before = [value for session in stored if session.skew_of == basis for value in session.skews]
    was = statistics.median(before) if before else 0.0
    if low <= 0 or share - was < _LEAST_SKEW:
        return ""
    nodes = _nodes(runs[-1])
    logs = {rank: statistics.fmean(math.log(of_run[rank]) for of_run in seconds) for rank in ranks}
    return _slow_node(logs, nodes, basis, share) or _words(
        f"rank {slowest}{_node_words(nodes.get(slowest, ''))} ", basis, share, len(ranks) - 1
    )


def _slow_node(
    logs: Mapping[int, float], nodes: Mapping[int, str], basis: str, share: float
) -> str:
    """Return the words about a node all of whose ranks are slow; empty if they are not."""
    slowest = max(logs, key=logs.__getitem__)
    on_node = [own for rank, own in logs.items() if nodes.get(rank) == nodes.get(slowest)]
    elsewhere = [own for rank, own in logs.items() if nodes.get(rank) != nodes.get(slowest)]
    if len(on_node) < 2 or not elsewhere or math.expm1(min(on_node) - max(elsewhere)) < share / 2:
        return ""
    apart = math.expm1(statistics.median(on_node) - statistics.median(elsewhere))
    return _words(f"each rank of {nodes[slowest]} ", basis, apart, len(elsewhere))


def _words(which: str, basis: str, share: float, others: int) -> str:
    than = "than the others" if others > 1 else "than the other"
    if basis == CPU_SECONDS:
        return f"{which}takes {_percent(share)} more CPU time {than}"
    return f"{which}is {_percent(share)} slower {than}"


def _nodes(run: RunSummary) -> dict[int, str]:
    return {
        rank.rank: rank.node for rank in (run.ranks or (run.scaling and run.scaling.ranks) or ())
    }


def _node_words(node: str) -> str:
    return f" on {node}" if node else ""


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
