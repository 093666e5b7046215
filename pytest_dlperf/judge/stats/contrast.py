"""Building blocks of the statistics: a session's value, its spread, the contrast of two sides.

All values are logs; higher is better. What is sampled is the run (one launch), never the
iteration.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pytest_dlperf.core.verdict import Prior

#: The largest log of a number.
_LARGEST: Final = math.log(sys.float_info.max)
#: Variance of a median over that of a mean of as many normal values, from 1 on, by simulation;
#: it tends to pi/2, and medians of an even number come nearer to the mean.
_MEDIAN_COSTS: Final = (1.0, 1.0, 1.35, 1.19, 1.43, 1.29, 1.47, 1.35, 1.49, 1.38)
#: A run that is this many standard deviations from its median was slowed by other programs.
_FAR: Final = 5.0
#: With fewer runs than this, slowed runs cannot be identified; where more than this share is far
#: off, the runs simply vary that much.
_FEWEST_TO_IDENTIFY: Final = 10
_MOST_FAR: Final = 0.2
#: Standard deviation of normal values over the median of their deviations.
MEDIAN_DEVIATION: Final = 1.4826
#: How often values with the noise of the prior are mistaken for noisier ones.
_CHANCE: Final = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionValue:
    """One session's value of one metric, and the runs behind it."""

    #: The value itself, as people read it: a median, or a ratio of two.
    amount: float
    #: Its log, negated where lower is better.
    value: float
    #: Logs of the runs behind each median: one sample, or two for a ratio.
    samples: tuple[tuple[float, ...], ...]

    @property
    def share(self) -> float:
        """How much of the variance of one run is left in the value."""
        return sum(median_cost(len(sample)) / len(sample) for sample in self.samples)


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
    #: The spread of these values alone, without the prior: a certificate, or an alarm, must hold
    #: by this one too. None where ``se`` alone decides.
    own_certificate: Spread | None = None
    own_alarm: Spread | None = None
    #: The distance that an alarm must keep at any error rate.
    far: float = 0.0

    @property
    def _spread(self) -> Spread:
        return Spread(se=self.se, df=self.df)

    def lower(self, alpha: float) -> float:
        """Return the lower one-sided confidence bound of the shift, at level 1 - ``alpha``."""
        return self.shift - self._spread.reach(alpha)

    def upper(self, alpha: float) -> float:
        """Return the upper one-sided confidence bound of the shift, at level 1 - ``alpha``."""
        return self.shift + self._spread.reach(alpha)

    def alarm_reach(self, alpha: float) -> float:
        """Return the distance from the shift that an alarm, in either direction, must keep."""
        spreads = (self._spread, self.own_alarm)
        return max(self.far, *(s.reach(alpha) for s in spreads if s is not None))

    def certified(self, alpha: float) -> float:
        """Return what the true shift is certified to be above, at this error rate."""
        spreads = (self._spread, self.own_certificate)
        return self.shift - max(s.reach(alpha) for s in spreads if s is not None)

    def p_below(self, shift: float) -> float:
        """Return the p value of the hypothesis that the true shift is ``shift`` or more.

        As an alarm, it says nothing within the distance ``far``: there it is 1.
        """
        if self.far > 0 and shift - self.shift <= self.far:
            return 1.0
        spreads = (self._spread, self.own_alarm)
        return max(s.tail(shift - self.shift) for s in spreads if s is not None)

    def p_above(self, shift: float) -> float:
        """Return the p value of the hypothesis that the true shift is ``shift`` or less."""
        spreads = (self._spread, self.own_certificate)
        return max(s.tail(self.shift - shift) for s in spreads if s is not None)


def margin(share: float, sign: int = 1) -> float:
    """Return the log distance of a change for the worse by ``share``; infinite from 100 % on."""
    if sign * share >= 1:
        return math.inf
    return -sign * math.log1p(-sign * share)


def change_of(shift: float) -> float:
    """Return now / before - 1 of a difference of logs; the largest float where it overflows."""
    return math.expm1(min(shift, _LARGEST))


def share_of(distance: float, sign: int = 1) -> float:
    """Return the change for the worse that a log distance is: the inverse of ``margin``."""
    return -sign * change_of(-sign * distance)


def quantile(alpha: float, df: float) -> float:
    """Return the value that Student's t exceeds with probability ``alpha``."""
    from scipy.special import stdtrit

    return -float(stdtrit(df, alpha))


def median_cost(count: int) -> float:
    """Return the variance of the median of ``count`` values over the variance of their mean."""
    return _MEDIAN_COSTS[count - 1] if count <= len(_MEDIAN_COSTS) else math.pi / 2


def squares(values: Sequence[float]) -> float:
    """Return the sum of squares about the mean; 0 for a single value, or none."""
    if len(values) < 2:
        return 0.0
    mean = statistics.fmean(values)
    return math.fsum((value - mean) ** 2 for value in values)


def moderated(prior: float, prior_df: float, own: float, own_df: float) -> float:
    """Return the mean of two variances, weighted by their degrees of freedom (Smyth 2004)."""
    return (prior_df * prior + own_df * own) / (prior_df + own_df)


def is_noisier(own: float, own_df: float, believed: float) -> bool:
    """Whether a variance exceeds the believed one, beyond chance (chi-square, 5 %)."""
    from scipy.special import chdtri

    return own_df > 0 and own * own_df > believed * float(chdtri(own_df, _CHANCE))


def run_variance(
    values: Sequence[SessionValue], prior: Prior, *, growing: Sequence[SessionValue] = ()
) -> tuple[float, float]:
    """Return the variance between runs, pooled within sessions, and its degrees of freedom.

    ``growing`` are values to which runs may still be added: the more of them, the more the runs
    count against the prior. So that more runs of the same spread never widen the result, the
    variance is the largest that any more of them would leave, at their number.
    """
    df, total = squares_of_runs(values, prior)
    samples = _samples(growing, prior)
    more_df = sum(len(sample) - 1 for sample in samples)
    if not more_df:
        own = total / df if df else 0.0
        return moderated(prior.run_sd**2, prior.run_df, own, df), prior.run_df + df
    own = sum(squares(sample) for sample in samples) / more_df
    believed_df = prior.run_df + df
    believed = (prior.run_df * prior.run_sd**2 + total) / believed_df
    count = min(len(sample) for sample in samples)
    variance = never_wider(believed, believed_df, own, more_df, count, step=len(samples))
    return variance, believed_df + more_df


def squares_of_runs(values: Sequence[SessionValue], prior: Prior) -> tuple[int, float]:
    """Return degrees of freedom and sum of squares of the runs about the mean of their session."""
    samples = _samples(values, prior)
    return sum(len(sample) - 1 for sample in samples), sum(squares(sample) for sample in samples)


def never_wider(
    believed: float, believed_df: float, own: float, own_df: float, count: int, *, step: int = 1
) -> float:
    """Return the moderated variance of ``count`` values, which more of the same never widen.

    Each further value adds ``step`` degrees of freedom to the own variance. Where that is larger
    than the believed one, its weight would grow, and at first widen the mean.
    """
    widest, added = moderated(believed, believed_df, own, own_df), 1
    while True:
        # It rises to one peak and falls from there on, so the first fall ends it.
        wider = (
            moderated(believed, believed_df, own, own_df + added * step) * count / (count + added)
        )
        if wider <= widest:
            return widest
        widest, added = wider, added + 1


def undisturbed(samples: Sequence[Sequence[float]], believed_sd: float) -> list[list[float]]:
    """Return the runs of each sample, as logs, without those that other programs slowed.

    Such a run is five standard deviations or more from the median of its sample, by the median
    deviation of all samples or by ``believed_sd``, whichever is larger. It hardly moves the
    median, but it would dominate a variance. All runs are kept where there are too few to
    identify slowed ones, or where too many are far off.
    """
    middles = [statistics.median(sample) for sample in samples]
    deviations = [
        abs(value - middle)
        for sample, middle in zip(samples, middles, strict=True)
        for value in sample
    ]
    if len(deviations) < _FEWEST_TO_IDENTIFY:
        return [list(sample) for sample in samples]
    far = _FAR * max(believed_sd, MEDIAN_DEVIATION * statistics.median(deviations))
    if sum(value > far for value in deviations) > _MOST_FAR * len(deviations):
        return [list(sample) for sample in samples]
    return [
        [value for value in sample if abs(value - middle) <= far]
        for sample, middle in zip(samples, middles, strict=True)
    ]


def _samples(values: Sequence[SessionValue], prior: Prior) -> list[list[float]]:
    samples = undisturbed([sample for value in values for sample in value.samples], prior.run_sd)
    return [sample for sample in samples if len(sample) > 1]
