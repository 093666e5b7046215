"""How many runs would decide a case that is open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_dlperf.judge.stats.family import alarm_alpha
from pytest_dlperf.judge.stats.levels import median_cost
from pytest_dlperf.judge.stats.margins import margin
from pytest_dlperf.judge.stats.stored import expected_alarm

if TYPE_CHECKING:
    from pytest_dlperf.core.verdict import Rule
    from pytest_dlperf.judge.metrics import Metric
    from pytest_dlperf.judge.screen import Spending
    from pytest_dlperf.judge.stats.levels import Contrast, Spread

#: Normal quantile of 80 %: how surely that many runs would do.
_POWER: Final = 0.842
#: Nobody runs a case more often than this.
_MOST: Final = 1000


def stored_runs_needed(
    metric: Metric, found: Contrast, tolerance_log: float, rule: Rule, spent: Spending
) -> int | None:
    """Return how many runs in all would decide it four times in five, were the shift the true one.

    Against stored sessions. None where no number of runs would: sessions differ too much.
    """
    arms, have = len(metric.now.arms), len(metric.now.arms[0])
    certify, alarm = rule.alpha * spent.certify, alarm_alpha(rule, spent)
    effect = margin(rule.min_effect, metric.sign)

    def reach(spread: Spread, alpha: float) -> float:
        return spread.reach(alpha) + _POWER * spread.se

    def decides(count: int) -> bool:
        share = arms * median_cost(count) / count
        spreads = expected_alarm(share, metric.stored, metric.prior)
        is_within = found.shift + tolerance_log > reach(spreads[0], certify)
        slower = max(reach(spread, alarm) for spread in spreads)
        return is_within or -effect - found.shift > slower

    if not decides(_MOST):
        return None
    low, high = have, _MOST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle, high)
    return high
