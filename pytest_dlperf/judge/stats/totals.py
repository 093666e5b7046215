"""What the rule needs of stored levels, as sums: any one of them can be left out at once."""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain

from pytest_dlperf.core.noise import Prior
from pytest_dlperf.judge.stats.levels import Level, far_off, squares, squares_of_runs


class Runs:
    """The runs of levels: ``squares_of_runs`` of all of them but one, in constant time.

    Which runs others must have slowed depends on all that are left, but hardly: the limit takes
    few values, and for each of them the levels are summed up once.
    """

    def __init__(self, levels: Sequence[Level], prior: Prior) -> None:
        self._believed_sd = prior.run_sd
        self._levels = levels
        arms = [arm for level in levels for arm in level.arms]
        deviations = [
            abs(value - middle)
            for arm in arms
            for middle in [statistics.median(arm)]
            for value in arm
        ]
        order = sorted(range(len(deviations)), key=deviations.__getitem__)
        self._sorted = [deviations[i] for i in order]
        ranks = [0] * len(order)
        for rank, i in enumerate(order):
            ranks[i] = rank
        following = iter(ranks)
        #: The place of each run among all, by how far off it lies: by level, then by arm.
        self._ranks = [[[next(following) for _ in arm] for arm in level.arms] for level in levels]
        self._summed = cache(self._sum_up)

    def without(self, left_out: int) -> tuple[int, float]:
        """Return degrees of freedom and sum of squares of all levels but this one."""
        gone = sorted(chain.from_iterable(self._ranks[left_out]))
        count = len(self._sorted) - len(gone)
        middle = (self._nth((count - 1) // 2, gone) + self._nth(count // 2, gone)) / 2

        def beyond(limit: float) -> int:
            first = bisect_right(self._sorted, limit)
            return len(self._sorted) - first - (len(gone) - bisect_right(gone, first - 1))

        far = far_off(count, middle, self._believed_sd, beyond)
        (df, total), own = self._summed(bisect_right(self._sorted, far))
        own_df, own_squares = own[left_out]
        return df - own_df, max(0.0, total - own_squares)

    def _nth(self, n: int, gone: Sequence[int]) -> float:
        """Return the n-th deviation, from 0 on, of those that are not gone."""
        for rank in gone:
            n += rank <= n
        return self._sorted[n]

    def _sum_up(self, kept: int) -> tuple[tuple[int, float], list[tuple[int, float]]]:
        """Return the sums of all levels, and of each, of the ``kept`` runs that lie nearest."""
        each = []
        for level, ranks in zip(self._levels, self._ranks, strict=True):
            arms = [
                [value for value, rank in zip(arm, places, strict=True) if rank < kept]
                for arm, places in zip(level.arms, ranks, strict=True)
            ]
            each.append((sum(max(0, len(arm) - 1) for arm in arms), sum(map(squares, arms))))
        return (sum(df for df, _ in each), sum(total for _, total in each)), each


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
