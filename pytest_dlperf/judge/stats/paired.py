"""Compares two arms by interleaved pairs of runs, from the spread of the pairs.

A pair is one run of each arm, one after the other in random order, so slow changes of the machine
affect both. All values are logs; higher is better.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pytest_dlperf.core.verdict import Comparison, Prior
from pytest_dlperf.judge.stats.contrast import (
    MEDIAN_DEVIATION,
    Contrast,
    Spread,
    is_noisier,
    moderated,
    never_wider,
)

#: Share trimmed at each end where a pair is far off, as other programs disturbed one of its runs.
_TRIMMED: Final = 0.2
#: A pair is far off from this many standard deviations on, by the median deviation.
_OUTLIER: Final = 5.0
#: Degrees of freedom of the prior: few, as recorded cases differ so much that a prior is
#: worth 1.3 degrees of freedom by the 64 published configurations, and 1.8 by the CPU recordings
#: (Smyth 2004, section 6.2).
_PRIOR_DF: Final = 1.5
#: Fewer pairs than this are not trimmed: too few would be left.
_FEWEST_TO_TRIM: Final = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class PairedDifferences:
    """Pairs, summarised: the mean of their differences, and how much they vary."""

    shift: float
    #: Variance of a difference, winsorised where pairs are trimmed; 0 for one pair.
    variance: float
    count: int
    is_trimmed: bool = False

    @property
    def kept(self) -> int:
        """The number of pairs that enter the mean."""
        return self.count - 2 * int(_TRIMMED * self.count) if self.is_trimmed else self.count


def pairs_of(now: Sequence[float], before: Sequence[float]) -> PairedDifferences:
    """Summarise the pairs of two arms, given as logs of one value per run, in their order.

    The mean difference and its variance; where a pair is far off, the trimmed mean with the
    winsorised variance (Yuen 1974).
    """
    differences = sorted(new - old for new, old in zip(now, before, strict=True))
    count = len(differences)
    is_trimmed = count >= _FEWEST_TO_TRIM and _has_outlier(differences)
    cut = int(_TRIMMED * count) if is_trimmed else 0
    kept = differences[cut : count - cut]
    low, high = kept[0], kept[-1]
    winsorised = [min(max(value, low), high) for value in differences]
    spread = statistics.variance(winsorised) * (count - 1) if count > 1 else 0.0
    return PairedDifferences(
        shift=statistics.fmean(kept),
        variance=spread / (len(kept) - 1) if len(kept) > 1 else 0.0,
        count=count,
        is_trimmed=is_trimmed,
    )


def contrast_of(pairs: PairedDifferences, prior: Prior) -> Contrast:
    """Return the contrast of the two arms.

    The variance is moderated by the prior (Smyth 2004). A certificate must also hold by the pairs'
    own spread, and so must an alarm where they are noisier than the prior says.
    """
    own, own_df = pairs.variance, pairs.kept - 1
    by_itself = Spread(se=math.sqrt(own / pairs.kept) if own_df else math.inf, df=max(own_df, 1))
    believed = 2 * prior.run_sd**2
    noisier = is_noisier(own, own_df, believed)
    variance = never_wider(believed, _PRIOR_DF, own, own_df, pairs.kept)
    return Contrast(
        shift=pairs.shift,
        se=math.sqrt(variance / pairs.kept),
        df=_PRIOR_DF + own_df,
        own_certificate=by_itself,
        own_alarm=by_itself if noisier else None,
    )


def likely_variance(pairs: PairedDifferences, prior: Prior) -> float:
    """Return the likely variance of a difference, from the pairs and from the prior."""
    own, own_df, believed = pairs.variance, pairs.kept - 1, 2 * prior.run_sd**2
    if is_noisier(own, own_df, believed):
        return own
    return moderated(believed, _PRIOR_DF, own, own_df)


def _has_outlier(ordered: Sequence[float]) -> bool:
    middle = statistics.median(ordered)
    scale = MEDIAN_DEVIATION * statistics.median(abs(value - middle) for value in ordered)
    return max(middle - ordered[0], ordered[-1] - middle) > _OUTLIER * scale


def with_shown_rates(compared: Comparison, before: Sequence[float]) -> Comparison:
    """Return the comparison with rates to show: the other side's median, changed by ``change``.

    Where both sides drift together, their medians may differ in the opposite direction.
    """
    assert compared.change is not None
    level = statistics.median(before)
    return replace(compared, before=level, now=level * (1 + compared.change))
