"""Compares one metric with its stored sessions: tolerance, interval, and verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pytest_dlperf.core.verdict import Comparison, Rule, Verdict
from pytest_dlperf.judge.screen import Spending
from pytest_dlperf.judge.sides import Sides
from pytest_dlperf.judge.stats.contrast import Contrast, change_of, margin, share_of
from pytest_dlperf.judge.stats.family import alarm_alpha, certify_alpha
from pytest_dlperf.judge.stats.runs_needed import stored_runs_needed

#: The probability left out at either end of the interval that is shown; it has 90 % at any alpha.
_TAIL: Final = 0.05


def compare(sides: Sides, tolerance: float, rule: Rule, spent: Spending) -> Comparison:
    """Return the comparison of one metric with its stored sessions."""
    contrast = sides.contrast()
    sign = sides.sign
    compared = comparison_of(contrast, tolerance, rule, spent, sign=sign)
    needed = None
    if compared.verdict is Verdict.INCONCLUSIVE:
        needed = stored_runs_needed(sides, contrast, margin(tolerance, sign), rule, spent)
    return replace(
        compared,
        now=sides.now.amount,
        before=sides.before,
        provisional=len(sides.stored) == 1,
        runs_needed=needed,
    )


def comparison_of(
    contrast: Contrast,
    tolerance: float,
    rule: Rule,
    spent: Spending,
    *,
    sign: int = 1,
) -> Comparison:
    """Return the comparison that a contrast makes, without the values themselves."""
    return Comparison(
        change=change_of(sign * contrast.shift),
        interval=interval_of(contrast, sign),
        sees=detectable_change(contrast, rule, spent, sign=sign),
        tolerance=tolerance,
        verdict=verdict_of(contrast, tolerance, rule, spent, sign=sign),
        p_regressed=contrast.p_below(-margin(rule.min_effect, sign)),
        p_passed=contrast.p_above(-margin(tolerance, sign)),
    )


def verdict_of(
    contrast: Contrast,
    tolerance: float,
    rule: Rule,
    spent: Spending,
    *,
    sign: int = 1,
) -> Verdict:
    """Return the verdict on a contrast by its two margins; ``Sides`` has the sign."""
    reach = contrast.alarm_reach(alarm_alpha(rule, spent))
    if contrast.shift - reach > margin(rule.min_effect, -sign):
        return Verdict.IMPROVED
    if contrast.certified(certify_alpha(rule, spent)) > -margin(tolerance, sign):
        return Verdict.PASSED
    if is_certainly_slower(contrast, rule, spent, sign):
        return Verdict.REGRESSED
    return Verdict.INCONCLUSIVE


def is_certainly_slower(contrast: Contrast, rule: Rule, spent: Spending, sign: int = 1) -> bool:
    """Whether a change for the worse beyond ``min_effect`` is shown, at the suite's error rate."""
    reach = contrast.alarm_reach(alarm_alpha(rule, spent))
    return contrast.shift + reach < -margin(rule.min_effect, sign)


def interval_of(contrast: Contrast, sign: int = 1) -> tuple[float, float]:
    """Return the two-sided 90 % interval of now / before - 1."""
    ends = sorted(change_of(sign * end) for end in (contrast.lower(_TAIL), contrast.upper(_TAIL)))
    return ends[0], ends[1]


def detectable_change(contrast: Contrast, rule: Rule, spent: Spending, *, sign: int = 1) -> float:
    """Return the smallest change for the worse, a share, that this contrast can detect."""
    reach = contrast.alarm_reach(alarm_alpha(rule, spent))
    return share_of(reach + margin(rule.min_effect, sign), sign)
