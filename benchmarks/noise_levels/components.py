"""Variance components of nested random effects, by the method of moments, with intervals.

log y = mean + session + launch + build + block + iteration, each a random effect within the one
before it. Sums of squares of an unbalanced nested design and their expectations: Searle, Casella
and McCulloch, Variance Components (1992), section 5.1 (analysis of variance, Henderson's method
1). Intervals are generalized confidence intervals (Weerahandi, JASA 88, 1993): sums of squares
over drawn chi-squares, solved as the estimates are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

#: Draws of the intervals, and the probability left out at either end.
_DRAWS: Final = 4000
_TAIL: Final = 0.05


class Estimate(NamedTuple):
    """A number, and its interval of 90 %."""

    value: float
    low: float
    high: float


class Component(NamedTuple):
    """What one level adds: its standard deviation, and its share of the whole variance."""

    name: str
    sd: Estimate
    share: Estimate


class Nested(NamedTuple):
    """The analysis of variance of a nested design."""

    #: Names of the levels that vary, the outermost first; the last is the observation.
    levels: tuple[str, ...]
    df: Any
    squares: Any
    #: Expected mean squares: of each level (row) by the variance of each (column).
    expected: Any


def analysis(
    values: Sequence[float], groups: Sequence[Sequence[int]], names: Sequence[str]
) -> Nested:
    """Return the sums of squares of ``values``, and what they are expected to be.

    ``groups`` are the numbers of the groups of each value, the outermost first; a number counts
    within the group before it. ``names`` are those of the levels, and of the observation. A level
    of which each group has only one is left out: its variance is part of the level around it.
    """
    y = np.asarray(values, dtype=float)
    y = y - y.mean()
    labels = _labels(groups, len(y))
    counts = [int(label.max()) + 1 for label in labels]
    # The mean is the group around the outermost one
    kept = [i for i in range(1, len(labels)) if counts[i] > counts[i - 1]]
    labels = [labels[0], *(labels[i] for i in kept)]
    sizes = [np.bincount(label) for label in labels]
    totals = [
        float((np.bincount(label, weights=y) ** 2 / size).sum())
        for label, size in zip(labels, sizes, strict=True)
    ]
    df = np.diff([len(size) for size in sizes]).astype(float)
    depth = len(labels)
    of_totals = np.array(
        [
            [_share(labels, sizes, inner, outer) for inner in range(1, depth)]
            for outer in range(depth)
        ]
    )
    return Nested(
        levels=tuple(names[i - 1] for i in kept),
        df=df,
        squares=np.diff(totals),
        expected=np.diff(of_totals, axis=0) / df[:, None],
    )


def components(nested: Nested, *, seed: int = 1) -> list[Component]:
    """Return the components with their intervals of 90 %; one below 0 counts as 0."""
    variances = _solved(nested, nested.squares / nested.df)
    chi_squares = np.random.default_rng(seed).chisquare(nested.df, (_DRAWS, len(nested.df)))
    drawn = _solved(nested, nested.squares / chi_squares)
    shares, drawn_shares = (
        values / values.sum(axis=-1, keepdims=True) for values in (variances, drawn)
    )
    return [
        Component(
            name=name,
            sd=_estimate(float(np.sqrt(variances[i])), np.sqrt(drawn[:, i])),
            share=_estimate(float(shares[i]), drawn_shares[:, i]),
        )
        for i, name in enumerate(nested.levels)
    ]


def _labels(groups: Sequence[Sequence[int]], count: int) -> list[Any]:
    """Return for each level, from the mean to the observation, the group of each value."""
    labels = [np.zeros(count, dtype=int)]
    for one in groups:
        inner = np.asarray(one, dtype=int)
        pairs = labels[-1] * (int(inner.max()) + 1) + inner
        labels.append(np.unique(pairs, return_inverse=True)[1].reshape(-1))
    return [*labels, np.arange(count)]


def _share(labels: list[Any], sizes: list[Any], inner: int, outer: int) -> float:
    """Return how often the variance of ``inner`` is in the squared totals of ``outer``."""
    if inner <= outer:
        return float(len(labels[0]))
    around = np.zeros(len(sizes[inner]), dtype=int)
    around[labels[inner]] = labels[outer]
    return float((sizes[inner].astype(float) ** 2 / sizes[outer][around]).sum())


def _solved(nested: Nested, mean_squares: Any) -> Any:
    """Return the variances whose expected mean squares are these."""
    return np.maximum(np.linalg.solve(nested.expected, mean_squares.T).T, 0.0)


def _estimate(value: float, drawn: Any) -> Estimate:
    low, high = np.quantile(drawn, (_TAIL, 1 - _TAIL))
    return Estimate(value, float(low), float(high))
