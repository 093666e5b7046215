"""Estimates how many runs, or pairs of runs, would decide an inconclusive case."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from pytest_dlperf.core.verdict import Prior, Rule
from pytest_dlperf.judge.screen import Spending
from pytest_dlperf.judge.sides import Sides
from pytest_dlperf.judge.stats.contrast import Contrast, Spread, margin, median_cost, quantile
from pytest_dlperf.judge.stats.family import alarm_alpha, certify_alpha
from pytest_dlperf.judge.stats.paired import PairedDifferences, contrast_of, likely_variance
from pytest_dlperf.judge.stats.stored import expected_alarm

#: The probability with which that many runs decide, and its normal quantile.
_POWER: Final = 0.8
_POWER_QUANTILE: Final = 0.842
#: More runs, or pairs, than this are not launched in practice.
_MOST: Final = 1000


def pairs_needed(
    pairs: PairedDifferences,
    prior: Prior,
    tolerance: float,
    rule: Rule,
    spent: Spending,
    *,
    sign: int = 1,
) -> int | None:
    """Return how many pairs in all would decide it four times in five; None where no number would.

    This assumes that the shift is the true one, and pairs are as noisy as is likely. ``spent`` are
    the error rates of the look at that many pairs.
    """
    likely = replace(pairs, variance=likely_variance(pairs, prior))
    alarm = alarm_alpha(rule, spent)
    effect, certify = margin(rule.min_effect, sign), certify_alpha(rule, spent)
    better = margin(rule.min_effect, -sign)

    def decides(count: int) -> bool:
        contrast = contrast_of(replace(likely, count=count), prior)
        moderated = Spread(se=contrast.se, df=contrast.df)
        certified = _power(
            contrast.shift + margin(tolerance, sign),
            certify,
            (moderated, contrast.own_certificate),
        )
        spreads = (moderated, contrast.own_alarm)
        slower = _power(-effect - contrast.shift, alarm, spreads)
        faster = _power(contrast.shift - better, alarm, spreads)
        return max(certified, slower, faster) >= _POWER

    return _fewest(decides, pairs.count)


def stored_runs_needed(
    sides: Sides, contrast: Contrast, tolerance_log: float, rule: Rule, spent: Spending
) -> int | None:
    """Return how many runs in all would decide it four times in five, against stored sessions.

    This assumes that the shift is the true one. None where no number of runs would decide it, as
    sessions differ too much.
    """
    medians, have = len(sides.now.samples), len(sides.now.samples[0])
    certify, alarm = certify_alpha(rule, spent), alarm_alpha(rule, spent)
    effect = margin(rule.min_effect, sides.sign)

    def reach(spread: Spread, alpha: float, least: float = 0.0) -> float:
        return max(least, spread.reach(alpha)) + _POWER_QUANTILE * spread.se

    def decides(count: int) -> bool:
        share = medians * median_cost(count) / count
        spreads = expected_alarm(share, sides.stored, sides.prior)
        is_within = contrast.shift + tolerance_log > reach(spreads[0], certify)
        # More runs of now do not show how far sessions differ: ``far`` stays
        slower = max(reach(spread, alarm, contrast.far) for spread in spreads)
        return is_within or -effect - contrast.shift > slower

    return _fewest(decides, have)


def _power(distance: float, alpha: float, spreads: Sequence[Spread | None]) -> float:
    """Return how often a distance exceeds the reach of all spreads, each varying with its own df.

    By the noncentral t distribution (approximation of Johnson and Welch 1940), since the spread of
    few pairs is often far from the true one.
    """
    from scipy.special import ndtr

    power = 1.0
    for spread in spreads:
        if spread is None:
            continue
        if not 0 < spread.se < math.inf:
            power = min(power, float(spread.se == 0 and distance > 0))
            continue
        t, df = quantile(alpha, spread.df), spread.df
        off = distance / spread.se - t * (1 - 1 / (4 * df))
        power = min(power, float(ndtr(off / math.sqrt(1 + t**2 / (2 * df)))))
    return power


def _fewest(decides: Callable[[int], bool], have: int) -> int | None:
    """Return the smallest number above ``have`` that decides; None if that is above ``_MOST``."""
    if have >= _MOST or not decides(_MOST):
        return None
    low, high = have, _MOST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle, high)
    return high
