"""What the rule needs of stored levels, as sums: any one of them can be left out at once."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_dlperf.judge.stats.levels import squares, squares_of_runs
from pytest_dlperf.judge.stats.totals_of_runs import Runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_dlperf.core.noise import Prior
    from pytest_dlperf.judge.stats.levels import Level


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """Stored levels, summed up."""

    count: int
    #: Means of ``Level.value`` and ``Level.share``.
    value: float
    share: float
    #: Degrees of freedom and sum of squares between the runs of a session.
    runs_df: int
    runs_squares: float
    #: The same between the levels of a node.
    within_df: int
    within_squares: float
    #: Nodes, the variance of their means (0 for one), and the mean of 1 / levels of a node.
    nodes: int
    nodes_variance: float
    nodes_inverse: float
    #: Their names, as far as known.
    node_names: frozenset[str]


def totals_of(levels: Sequence[Level], prior: Prior) -> Totals:
    """Return the totals of ``levels``, of which there is at least one."""
    by_node = list(_by_node(levels).values())
    runs_df, runs_squares = squares_of_runs(levels, prior)
    means = [statistics.fmean(values) for values in by_node]
    return Totals(
        count=len(levels),
        value=statistics.fmean(level.value for level in levels),
        share=statistics.fmean(level.share for level in levels),
        runs_df=runs_df,
        runs_squares=runs_squares,
        within_df=len(levels) - len(by_node),
        within_squares=sum(squares(values) for values in by_node),
        nodes=len(by_node),
        nodes_variance=statistics.variance(means) if len(means) > 1 else 0.0,
        nodes_inverse=statistics.fmean(1 / len(values) for values in by_node),
        node_names=frozenset(level.node for level in levels if level.node),
    )


def _by_node(levels: Sequence[Level]) -> dict[str, list[float]]:
    """Return the values of the levels of each node; those of unknown ones are of one."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for level in levels:
        found[level.node].append(level.value)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class _Node:
    """The levels of one node."""

    count: int
    mean: float

    def without(self, value: float) -> _Node:
        left = self.count - 1
        return _Node(count=left, mean=(self.count * self.mean - value) / left)


def each_left_out(levels: Sequence[Level], prior: Prior) -> Iterator[Totals]:
    """Yield the totals of all but the first level, of all but the second, and so on.

    In time and memory linear in their number, of which there are at least two.
    """
    whole = totals_of(levels, prior)
    runs = Runs(levels, prior)
    # About the mean of all, so that sums of squares lose no digits.
    nodes = {
        name: _Node(count=len(values), mean=statistics.fmean(values) - whole.value)
        for name, values in _by_node(levels).items()
    }
    sums = (
        sum(node.mean for node in nodes.values()),
        sum(node.mean**2 for node in nodes.values()),
        sum(1 / node.count for node in nodes.values()),
    )
    for i, level in enumerate(levels):
        yield _without(level, whole, nodes[level.node], sums, runs.without(i))


def _without(
    level: Level,
    whole: Totals,
    node: _Node,
    sums: tuple[float, float, float],
    runs: tuple[int, float],
) -> Totals:
    mean, mean_square, inverse = (
        total - mine
        for total, mine in zip(sums, (node.mean, node.mean**2, 1 / node.count), strict=True)
    )
    left, is_last = whole.count - 1, node.count == 1
    value = level.value - whole.value
    nodes, within_squares = whole.nodes - is_last, whole.within_squares
    if not is_last:
        others = node.without(value)
        mean += others.mean
        mean_square += others.mean**2
        inverse += 1 / others.count
        within_squares -= (value - node.mean) ** 2 * node.count / others.count
    return Totals(
        count=left,
        value=whole.value - value / left,
        share=(whole.count * whole.share - level.share) / left,
        runs_df=runs[0],
        runs_squares=runs[1],
        within_df=left - nodes,
        within_squares=max(0.0, within_squares),
        nodes=nodes,
        nodes_variance=max(0.0, mean_square - mean**2 / nodes) / (nodes - 1) if nodes > 1 else 0.0,
        nodes_inverse=inverse / nodes,
        node_names=whole.node_names - {level.node} if is_last else whole.node_names,
    )
