"""Interleaved pairs: what two arms differ by, from the spread of their pairs.

A pair is one run of each arm, one after the other in random order: what the machine does slowly
is in both. All values are logs; higher is better.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Final

from pytest_dlperf.judge.stats import Contrast, Spread, is_noisier, never_wider

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_dlperf.core.noise import Prior

#: Share that is trimmed at each end where a pair lies far off: one of its runs was hit by others.
_TRIMMED: Final = 0.2
#: So many standard deviations off, by the median deviation, is far.
_OUTLIER: Final = 5.0
#: Pairs tell their own spread better than anything built in, which counts for little.
_BUILT_IN_DF: Final = 4.0
#: Fewer pairs than this are not trimmed: there is too little left.
_FEWEST_TO_TRIM: Final = 6


def paired_contrast(now: Sequence[float], before: Sequence[float], prior: Prior) -> Contrast:
    """Compare the pairs of two arms, given as logs of one value a run, in the order of pairs.

    By the mean difference, and the trimmed mean with the winsorised variance (Yuen 1974) where
    a pair lies far off; the variance is moderated by the prior (Smyth 2004). Pairs that are
    noisier than is believed speak for themselves alone, and nothing is certified that they do not
    show by themselves where the prior is only the built-in one.
    """
    found = sorted(mine - theirs for mine, theirs in zip(now, before, strict=True))
    count = len(found)
    cut = int(_TRIMMED * count) if count >= _FEWEST_TO_TRIM and _has_outlier(found) else 0
    kept = found[cut : count - cut]
    low, high = kept[0], kept[-1]
    winsorised = [min(max(value, low), high) for value in found]
    spread = statistics.variance(winsorised) * (count - 1) if count > 1 else 0.0
    own_df = len(kept) - 1
    own = spread / own_df if own_df else 0.0
    df = prior.run_df if prior.learnt else _BUILT_IN_DF
    by_itself = Spread(se=math.sqrt(own / len(kept)) if own_df else math.inf, df=max(own_df, 1))
    believed = 2 * prior.run_sd**2
    noisier = is_noisier(own, own_df, believed)
    variance = never_wider(believed, df, own, own_df, len(kept))
    return Contrast(
        shift=statistics.fmean(kept),
        se=math.sqrt(variance / len(kept)),
        df=df + own_df,
        own_certificate=None if prior.learnt and not noisier else by_itself,
        own_alarm=by_itself if noisier else None,
    )


def _has_outlier(ordered: Sequence[float]) -> bool:
    middle = statistics.median(ordered)
    scale = 1.4826 * statistics.median(abs(value - middle) for value in ordered)
    return max(middle - ordered[0], ordered[-1] - middle) > _OUTLIER * scale
