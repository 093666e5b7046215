"""How many runs would decide a case that is open."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from pytest_dlperf.judge.stats import median_cost, quantile
from pytest_dlperf.judge.stored import expected_spread

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_dlperf.core.verdict import Rule
    from pytest_dlperf.judge.metrics import Metric
    from pytest_dlperf.judge.screen import Spending
    from pytest_dlperf.judge.stats import Contrast

#: Normal quantile of 80 %: how surely that many runs would do.
_POWER: Final = 0.842
#: Nobody runs a case more often than this.
_MOST: Final = 1000


def runs_needed(
    found: Contrast,
    tolerance_log: float,
    min_effect_log: float,
    alphas: tuple[float, float],
    have: int,
    se_of: Callable[[int], float],
) -> int | None:
    """Return how many runs in all would decide it four times in five, were the shift the true one.

    ``alphas`` are the error rates of a certificate and of an alarm, ``se_of`` the standard error
    at a number of runs. None where no number of runs would.
    """
    certify, alarm = (quantile(alpha, found.df) + _POWER for alpha in alphas)

    def decides(count: int) -> bool:
        se = se_of(count)
        is_within = found.shift + tolerance_log > certify * se
        return is_within or -min_effect_log - found.shift > alarm * se

    if not decides(_MOST):
        return None
    low, high = have, _MOST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle, high)
    return high


def stored_runs_needed(
    metric: Metric, found: Contrast, tolerance_log: float, rule: Rule, spent: Spending
) -> int | None:
    """Return the runs that a session against stored ones would take."""
    arms = len(metric.now.arms)

    def se_of(count: int) -> float:
        share = arms * median_cost(count) / count
        return expected_spread(share, metric.stored, metric.prior).se

    alarm_rate = rule.alpha * rule.alarm_share * spent.alarm / max(1, rule.family)
    return runs_needed(
        found,
        tolerance_log,
        -math.log1p(-rule.min_effect),
        (rule.alpha * spent.certify, alarm_rate),
        len(metric.now.arms[0]),
        se_of,
    )
