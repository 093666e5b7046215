"""The statistics: levels of sessions, their moderated spread, and the contrast of two sides.

All values are logs; higher is better. The run (one launch) is the sample, never the iteration.
A later rule replaces this module: ``contrast`` and ``expected_se`` are all that others use.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_dlperf.judge.priors import Prior

#: Variance of a median over that of a mean of as many normal values, from 1 on, by simulation;
#: it tends to pi/2, and medians of an even number come nearer to the mean.
_MEDIAN_COSTS: Final = (1.0, 1.0, 1.35, 1.19, 1.43, 1.29, 1.47, 1.35, 1.49, 1.38)


def median_cost(count: int) -> float:
    """Return how many times the variance of a mean the median of ``count`` values has."""
    return _MEDIAN_COSTS[count - 1] if count <= len(_MEDIAN_COSTS) else math.pi / 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Level:
    """What one session says of one metric."""

    #: The value itself, as people read it: a median, or a ratio of two.
    amount: float
    #: Its log, negated where lower is better.
    value: float
    #: Logs of the runs behind each median.
    arms: tuple[tuple[float, ...], ...]

    @property
    def share(self) -> float:
        """How much of the variance of one run is left in the value."""
        return sum(median_cost(len(arm)) / len(arm) for arm in self.arms)


@dataclass(frozen=True, kw_only=True, slots=True)
class Contrast:
    """Now against before: the shift of the log, its standard error and degrees of freedom."""

    shift: float
    se: float
    df: float

    def lower(self, alpha: float) -> float:
        """Return the bound that the true shift is below in a share ``alpha`` of such contrasts."""
        return self.shift - quantile(alpha, self.df) * self.se

    def upper(self, alpha: float) -> float:
        """Return the bound that the true shift is above in a share ``alpha`` of such contrasts."""
        return self.shift + quantile(alpha, self.df) * self.se


def quantile(alpha: float, df: float) -> float:
    """Return the value that Student's t exceeds with probability ``alpha``."""
    from scipy.special import stdtrit

    return -float(stdtrit(df, alpha))


def moderated(prior: float, prior_df: float, own: float, own_df: float) -> float:
    """Return the mean of two variances, weighted by their degrees of freedom (Smyth 2004)."""
    return (prior_df * prior + own_df * own) / (prior_df + own_df)


def run_variance(levels: Sequence[Level], prior: Prior) -> tuple[float, float]:
    """Return the variance between runs, pooled within sessions, and its degrees of freedom."""
    arms = [arm for level in levels for arm in level.arms if len(arm) > 1]
    df = sum(len(arm) - 1 for arm in arms)
    own = sum(statistics.variance(arm) * (len(arm) - 1) for arm in arms) / df if df else 0.0
    return moderated(prior.run_sd**2, prior.df, own, df), prior.df + df


def _variance(stored: Sequence[Level], share_now: float, runs: float, prior: Prior) -> float:
    """Return the variance of a new session's level less the mean of the stored ones."""
    count = len(stored)
    share = statistics.fmean(level.share for level in stored)
    values = [level.value for level in stored]
    own = statistics.variance(values) if count > 1 else 0.0
    # The prior knows how the two spreads compare; how large they are, the runs tell better.
    session = prior.session_sd**2 * runs / prior.run_sd**2
    between = moderated(session + share * runs, prior.df, own, count - 1)
    return between * (1 + 1 / count) + max(0.0, share_now - share) * runs


def contrast(now: Level, stored: Sequence[Level], prior: Prior) -> Contrast:
    """Compare a session with stored ones, by the spread of the levels of sessions."""
    runs, _ = run_variance([now, *stored], prior)
    return Contrast(
        shift=now.value - statistics.fmean(level.value for level in stored),
        se=math.sqrt(_variance(stored, now.share, runs, prior)),
        df=prior.df + len(stored) - 1,
    )


def expected_se(share_now: float, stored: Sequence[Level], prior: Prior) -> tuple[float, float]:
    """Return standard error and degrees of freedom to expect, from what is stored alone."""
    runs, _ = run_variance(stored, prior)
    return math.sqrt(_variance(stored, share_now, runs, prior)), prior.df + len(stored) - 1
