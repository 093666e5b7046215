"""One metric: the two margins, the tolerance, and what the interval says about them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.verdict import Comparison, Verdict
from pytest_dlperf.judge.stats import contrast, expected_se, quantile

if TYPE_CHECKING:
    from pytest_dlperf.core.verdict import Rule
    from pytest_dlperf.judge.metrics import Metric
    from pytest_dlperf.judge.stats import Contrast

#: The interval that is shown has 90 %, whatever alpha is.
_TAIL: Final = 0.05
#: Normal quantile of 95 %: how surely an unchanged case is to be certified.
_POWER: Final = 1.645


def margin(share: float, sign: int = 1) -> float:
    """Return the log distance of a change for the worse by ``share``; infinite from 100 % on."""
    if sign * share >= 1:
        return math.inf
    return -sign * math.log1p(-sign * share)


def share_of(distance: float, sign: int = 1) -> float:
    """Return the change for the worse that a log distance is: the inverse of ``margin``."""
    return -sign * math.expm1(-sign * distance)


def learnt_tolerance(metric: Metric, rule: Rule, looks: int) -> float:
    """Return the tolerance at which an unchanged case is certified 19 times in 20.

    From what is stored and the prior alone: noise of the runs on trial must not widen it.
    """
    se, df = expected_se(metric.planned, metric.stored, metric.prior)
    needed = (quantile(rule.alpha / looks, df) + _POWER) * se
    return max(rule.tolerance_min, share_of(needed, metric.sign))


def alarm_alpha(rule: Rule, looks: int) -> float:
    """Return the error rate of one alarm: split over the suite, and over the looks that may fail.

    The first of several looks never fails a case (``screen.more_runs``).
    """
    return rule.alpha / (max(1, rule.family) * max(1, looks - 1))


def slower_for_sure(found: Contrast, rule: Rule, looks: int, sign: int = 1) -> bool:
    """Whether a change for the worse beyond ``min_effect`` is shown, at the suite's error rate."""
    return found.upper(alarm_alpha(rule, looks)) < -margin(rule.min_effect, sign)


def _verdict(metric: Metric, found: Contrast, tolerance: float, rule: Rule, looks: int) -> Verdict:
    sign = metric.sign
    if found.lower(alarm_alpha(rule, looks)) > margin(rule.min_effect, -sign):
        return Verdict.IMPROVED
    worse = slower_for_sure(found, rule, looks, sign)
    if metric.floor is not None:
        worse = worse and found.shift < -margin(metric.floor, sign)
        if worse:
            return Verdict.REGRESSED
    if found.lower(rule.alpha / looks) > -margin(tolerance, sign):
        return Verdict.PASSED
    return Verdict.REGRESSED if worse else Verdict.INCONCLUSIVE


def compare(
    metric: Metric, tolerance: float, rule: Rule, looks: int, found: Contrast | None = None
) -> Comparison:
    """Judge one metric, all else being equal."""
    sign = metric.sign
    found = found or contrast(metric.now, metric.stored, metric.prior)
    ends = sorted(math.expm1(sign * end) for end in (found.lower(_TAIL), found.upper(_TAIL)))
    seen = quantile(alarm_alpha(rule, looks), found.df) * found.se
    seen = max(seen + margin(rule.min_effect, sign), margin(metric.floor or 0.0, sign))
    return Comparison(
        now=metric.now.amount,
        before=metric.before,
        change=math.expm1(sign * found.shift),
        interval=(ends[0], ends[1]),
        sees=share_of(seen, sign),
        tolerance=tolerance,
        verdict=_verdict(metric, found, tolerance, rule, looks),
        provisional=len(metric.stored) == 1,
    )
