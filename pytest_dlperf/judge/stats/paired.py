"""Interleaved pairs: what two arms differ by, from the spread of their pairs.

A pair is one run of each arm, one after the other in random order: what the machine does slowly
is in both. All values are logs; higher is better.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pytest_dlperf.core.noise import Prior
from pytest_dlperf.core.verdict import Comparison
from pytest_dlperf.judge.stats.levels import (
    MEDIAN_DEVIATION,
    Contrast,
    Spread,
    is_noisier,
    moderated,
    never_wider,
)

#: Of interleaved pairs, where none is given.
TOLERANCE: Final = 0.03
#: Share that is trimmed at each end where a pair lies far off: one of its runs was hit by others.
_TRIMMED: Final = 0.2
#: So many standard deviations off, by the median deviation, is far.
_OUTLIER: Final = 5.0
#: Pairs tell their own spread better than anything built in. Recorded cases differ so much from
#: each other that a belief counts for no more: 1.3 degrees of freedom by the 64 published
#: configurations, 1.8 by the CPU recordings (Smyth 2004, section 6.2).
_BUILT_IN_DF: Final = 1.5
#: Fewer pairs than this are not trimmed: there is too little left.
_FEWEST_TO_TRIM: Final = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Pairs:
    """What pairs say by themselves: the mean of their differences, and how they vary."""

    shift: float
    #: Of a difference, winsorised where pairs are trimmed; 0 for one pair.
    variance: float
    count: int
    is_trimmed: bool = False

    @property
    def kept(self) -> int:
        """Pairs that the mean is of."""
        return self.count - 2 * int(_TRIMMED * self.count) if self.is_trimmed else self.count


def pairs_of(now: Sequence[float], before: Sequence[float]) -> Pairs:
    """Return what the pairs of two arms say, given as logs of one value a run, in their order.

    By the mean difference, and the trimmed mean with the winsorised variance (Yuen 1974) where
    a pair lies far off.
    """
    found = sorted(mine - theirs for mine, theirs in zip(now, before, strict=True))
    count = len(found)
    is_trimmed = count >= _FEWEST_TO_TRIM and _has_outlier(found)
    cut = int(_TRIMMED * count) if is_trimmed else 0
    kept = found[cut : count - cut]
    low, high = kept[0], kept[-1]
    winsorised = [min(max(value, low), high) for value in found]
    spread = statistics.variance(winsorised) * (count - 1) if count > 1 else 0.0
    return Pairs(
        shift=statistics.fmean(kept),
        variance=spread / (len(kept) - 1) if len(kept) > 1 else 0.0,
        count=count,
        is_trimmed=is_trimmed,
    )


def contrast_of(pairs: Pairs, prior: Prior) -> Contrast:
    """Return the comparison that such pairs make.

    The variance is moderated by the prior (Smyth 2004). Pairs that are noisier than is believed
    speak for themselves alone, and nothing is certified that they do not show by themselves where
    the prior is only the built-in one.
    """
    own, own_df = pairs.variance, pairs.kept - 1
    df = _belief(prior)
    by_itself = Spread(se=math.sqrt(own / pairs.kept) if own_df else math.inf, df=max(own_df, 1))
    believed = 2 * prior.run_sd**2
    noisier = is_noisier(own, own_df, believed)
    variance = never_wider(believed, df, own, own_df, pairs.kept)
    return Contrast(
        shift=pairs.shift,
        se=math.sqrt(variance / pairs.kept),
        df=df + own_df,
        own_certificate=None if prior.learnt and not noisier else by_itself,
        own_alarm=by_itself if noisier else None,
    )


def likely_variance(pairs: Pairs, prior: Prior) -> float:
    """Return how much a pair is likely to vary, by what it does and what is believed of it."""
    own, own_df, believed = pairs.variance, pairs.kept - 1, 2 * prior.run_sd**2
    if is_noisier(own, own_df, believed):
        return own
    return moderated(believed, _belief(prior), own, own_df)


def _belief(prior: Prior) -> float:
    """Return the degrees of freedom that what is believed counts for."""
    return prior.run_df if prior.learnt else min(prior.run_df, _BUILT_IN_DF)


def _has_outlier(ordered: Sequence[float]) -> bool:
    middle = statistics.median(ordered)
    scale = MEDIAN_DEVIATION * statistics.median(abs(value - middle) for value in ordered)
    return max(middle - ordered[0], ordered[-1] - middle) > _OUTLIER * scale


def by_pairs(compared: Comparison, before: Sequence[float]) -> Comparison:
    """Return a comparison of pairs with numbers to show: the median of the other side, changed.

    Medians of two sides that drift together may differ the other way than their pairs do.
    """
    assert compared.change is not None
    level = statistics.median(before)
    return replace(compared, before=level, now=level * (1 + compared.change))
