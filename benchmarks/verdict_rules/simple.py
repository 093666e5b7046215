"""Seven simple rules that people compare runs with, on the same numbers as our rule.

Each takes the rates of stored runs (sessions, 5) and of the first five runs of now, and says
whether the latter are slower. None splits an error rate over the cases of a suite, as nobody who
uses them does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Rates: TypeAlias = NDArray[np.float64]
_DRAWS: Final = 400
#: z scores need a spread of sessions.
_SESSIONS: Final = 3


def below_mean(stored: Rates, now: Rates) -> bool:
    """More than 5 % below the mean of all stored runs (golden values of Megatron-Bridge)."""
    return bool(now.mean() < 0.95 * stored.mean())


def above_last_time(stored: Rates, now: Rates) -> bool:
    """Mean time more than 5 % above the last session's (pytest-benchmark, ``mean:5%``)."""
    return bool((1 / now).mean() > 1.05 * (1 / stored[-1]).mean())


def z_score(stored: Rates, now: Rates, limit: float) -> bool:
    """More than ``limit`` deviations of the means of sessions below their mean (Conbench)."""
    means = stored.mean(axis=1)
    if len(means) < _SESSIONS:
        return False
    return bool(now.mean() - means.mean() < -limit * means.std(ddof=1))


def ranks_differ(before: Rates, now: Rates) -> bool:
    """Slower by the test of Mann and Whitney, two-sided at 5 %."""
    # It takes a second or two to import.
    from scipy.stats import mannwhitneyu

    is_slower = np.median(now) < np.median(before)
    return bool(is_slower and mannwhitneyu(now, before).pvalue < 0.05)


def bootstrap(stored: Rates, now: Rates) -> bool:
    """Slower by the 95 % interval of the ratio of medians, sessions and runs drawn anew.

    Kalibera and Jones, ISMM 2013; the draws are those of a fixed seed.
    """
    rng = np.random.default_rng(1)
    sessions, runs = stored.shape
    drawn = rng.integers(0, sessions, (_DRAWS, sessions, 1))
    before = np.median(
        stored[drawn, rng.integers(0, runs, (_DRAWS, sessions, runs))], axis=2
    ).mean(axis=1)
    after = np.median(now[rng.integers(0, len(now), (_DRAWS, len(now)))], axis=1)
    return bool(np.percentile(after / before, 97.5) < 1)


SIMPLE_RULES: Final[Mapping[str, Callable[[Rates, Rates], bool]]] = {
    "5 % of the mean": below_mean,
    "5 % of the last mean time": above_last_time,
    "z score 5": lambda stored, now: z_score(stored, now, 5),
    "z score 3": lambda stored, now: z_score(stored, now, 3),
    "Mann-Whitney, last session": lambda stored, now: ranks_differ(stored[-1], now),
    "Mann-Whitney, all": lambda stored, now: ranks_differ(stored.ravel(), now),
    "bootstrap": bootstrap,
}
