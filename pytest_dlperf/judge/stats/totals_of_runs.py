"""The spread of the runs of stored levels, with any one level left out."""

from __future__ import annotations

import statistics
from bisect import bisect_right
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

from pytest_dlperf.judge.stats.levels import far_off, squares

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_dlperf.core.noise import Prior
    from pytest_dlperf.judge.stats.levels import Level


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
