"""The statistics: levels of sessions, their moderated spread, and the contrast of two sides.

All values are logs; higher is better. The run (one launch) is the sample, never the iteration.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_dlperf.core.noise import Prior

#: Variance of a median over that of a mean of as many normal values, from 1 on, by simulation;
#: it tends to pi/2, and medians of an even number come nearer to the mean.
_MEDIAN_COSTS: Final = (1.0, 1.0, 1.35, 1.19, 1.43, 1.29, 1.47, 1.35, 1.49, 1.38)
#: What little is believed of the spread of nodes counts as so many degrees of freedom.
_NODES_DF: Final = 4.0
#: How often values of the believed noise are taken for noisier ones.
_CHANCE: Final = 0.05
#: However quiet the runs, so much of the variance that is believed of sessions stays.
_QUIETEST: Final = 0.25
#: However many runs there are now, so much of the variance of sessions stays.
_SURE: Final = 0.3


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
    #: Host of the first rank; empty if unknown.
    node: str = ""

    @property
    def share(self) -> float:
        """How much of the variance of one run is left in the value."""
        return sum(median_cost(len(arm)) / len(arm) for arm in self.arms)


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """A standard error, and its degrees of freedom."""

    se: float
    df: float

    def reach(self, alpha: float) -> float:
        """Return the distance that is exceeded with probability ``alpha``."""
        return quantile(alpha, self.df) * self.se if self.se else 0.0

    def tail(self, distance: float) -> float:
        """Return the probability of a distance beyond this one."""
        from scipy.special import stdtr

        if not 0 < self.se < math.inf:
            return 0.0 if self.se == 0 and distance > 0 else 1.0
        return float(stdtr(self.df, -distance / self.se))


@dataclass(frozen=True, kw_only=True, slots=True)
class Contrast:
    """Now against before: the shift of the log, its standard error and degrees of freedom."""

    shift: float
    se: float
    df: float
    #: The same by the spread of these values alone: nothing is certified, and nothing called an
    #: alarm, that they do not show by themselves too. None to go by ``se``.
    own_certificate: Spread | None = None
    own_alarm: Spread | None = None

    @property
    def _spread(self) -> Spread:
        return Spread(se=self.se, df=self.df)

    def lower(self, alpha: float) -> float:
        """Return the bound that the true shift is below in a share ``alpha`` of such contrasts."""
        return self.shift - self._spread.reach(alpha)

    def upper(self, alpha: float) -> float:
        """Return the bound that the true shift is above in a share ``alpha`` of such contrasts."""
        return self.shift + self._spread.reach(alpha)

    def alarm_reach(self, alpha: float) -> float:
        """Return how far off the shift an alarm, for either side, must keep."""
        return max(s.reach(alpha) for s in (self._spread, self.own_alarm) if s is not None)

    def certified(self, alpha: float) -> float:
        """Return what the true shift is certified to be above, at this error rate."""
        spreads = (self._spread, self.own_certificate)
        return self.shift - max(s.reach(alpha) for s in spreads if s is not None)

    def p_below(self, shift: float) -> float:
        """Return the p value of the hypothesis that the true shift is ``shift`` or more."""
        spreads = (self._spread, self.own_alarm)
        return max(s.tail(shift - self.shift) for s in spreads if s is not None)

    def p_above(self, shift: float) -> float:
        """Return the p value of the hypothesis that the true shift is ``shift`` or less."""
        spreads = (self._spread, self.own_certificate)
        return max(s.tail(self.shift - shift) for s in spreads if s is not None)


def quantile(alpha: float, df: float) -> float:
    """Return the value that Student's t exceeds with probability ``alpha``."""
    from scipy.special import stdtrit

    return -float(stdtrit(df, alpha))


def moderated(prior: float, prior_df: float, own: float, own_df: float) -> float:
    """Return the mean of two variances, weighted by their degrees of freedom (Smyth 2004)."""
    return (prior_df * prior + own_df * own) / (prior_df + own_df)


def is_noisier(own: float, own_df: float, believed: float) -> bool:
    """Whether a variance is larger than is believed, beyond chance (chi-square, 5 %)."""
    from scipy.special import chdtri

    return own_df > 0 and own * own_df > believed * float(chdtri(own_df, _CHANCE))


def run_variance(levels: Sequence[Level], prior: Prior) -> tuple[float, float]:
    """Return the variance between runs, pooled within sessions, and its degrees of freedom."""
    arms = [arm for level in levels for arm in level.arms if len(arm) > 1]
    df = sum(len(arm) - 1 for arm in arms)
    own = sum(statistics.variance(arm) * (len(arm) - 1) for arm in arms) / df if df else 0.0
    return moderated(prior.run_sd**2, prior.run_df, own, df), prior.run_df + df


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sessions:
    """How levels of sessions vary."""

    #: Variance of a level within a node, and its degrees of freedom.
    within: float
    df: float
    #: What nodes add to it; 0 where all sessions ran on one.
    nodes: float
    node_count: int
    #: That of the stored levels alone, where it is larger than is believed, beyond chance.
    own: Spread | None

    def prediction(self, count: int) -> float:
        """Return the variance of a new level less the mean of ``count`` old ones."""
        return self.within * (1 + 1 / count) + self.nodes * (1 + 1 / self.node_count)


def _sessions(stored: Sequence[Level], runs: float, prior: Prior) -> _Sessions:
    share = statistics.fmean(level.share for level in stored)
    session = prior.session_sd**2
    if not prior.learnt:
        # Where runs are quieter than is believed, sessions are believed to be so as well.
        session *= min(1.0, max(_QUIETEST, runs / prior.run_sd**2))
    by_node = _by_node(stored)
    df = len(stored) - len(by_node)
    squares = sum(statistics.variance(v) * (len(v) - 1) for v in by_node if len(v) > 1)
    own = squares / df if df else 0.0
    believed = session + share * runs
    within = moderated(believed, prior.session_df, own, df)
    nodes = 0.0
    if len(by_node) > 1:
        means = statistics.variance([statistics.fmean(values) for values in by_node])
        beyond = means - within * statistics.fmean(1 / len(values) for values in by_node)
        # Unknown beforehand: a node is believed to differ as much as a day.
        nodes = moderated(session, _NODES_DF, max(0.0, beyond), len(by_node) - 1)
    noisier = not prior.learnt and is_noisier(own, df, believed)
    return _Sessions(
        within=within,
        df=prior.session_df + df,
        nodes=nodes,
        node_count=len(by_node),
        own=Spread(se=math.sqrt(own * (1 + 1 / len(stored))), df=df) if noisier else None,
    )


def _by_node(levels: Sequence[Level]) -> list[list[float]]:
    """Return the values of the levels of each node; those of unknown ones are of one."""
    found: dict[str, list[float]] = {}
    for level in levels:
        found.setdefault(level.node, []).append(level.value)
    return list(found.values())


def _contrast(
    shift: float, share_now: float, stored: Sequence[Level], runs: float, prior: Prior
) -> Contrast:
    sessions = _sessions(stored, runs, prior)
    variance = sessions.prediction(len(stored))
    # Fewer runs than a stored session had make it wider, more of them tighter.
    runs_apart = (share_now - statistics.fmean(level.share for level in stored)) * runs
    return Contrast(
        shift=shift,
        se=math.sqrt(max(variance + runs_apart, _SURE * variance)),
        df=sessions.df,
        own_alarm=sessions.own,
    )


def contrast(now: Level, stored: Sequence[Level], prior: Prior) -> Contrast:
    """Compare a session with stored ones, by the spread of the levels of sessions."""
    runs, _ = run_variance([now, *stored], prior)
    shift = now.value - statistics.fmean(level.value for level in stored)
    return _contrast(shift, now.share, stored, runs, prior)


def expected_spread(share_now: float, stored: Sequence[Level], prior: Prior) -> Spread:
    """Return the standard error to expect, from what is stored alone."""
    runs, _ = run_variance(stored, prior)
    found = _contrast(0.0, share_now, stored, runs, prior)
    return Spread(se=found.se, df=found.df)
