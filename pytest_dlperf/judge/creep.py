"""Creep: slowdowns too small for any one session, which add up against a fixed level, the anchor.

Where pairs can decide, a suspicion costs a few pairs and a missed one costs nights, so that its
bound is a share, and knows no noise. Where they cannot, the stored levels must show it for
certain.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.verdict import TOLERANCE, Comparison, Rule, Verdict
from pytest_dlperf.judge.stats.contrast import change_of, margin, quantile

#: The level of now is the median of so many: one odd session neither shows nor hides a creep.
_LEVELS: Final = 3
#: Variance of the median of three normal values, over that of one.
_OF_MEDIAN: Final = 0.449
#: The tolerance that pairs with the anchor have to certify, as a part of the tolerance.
_PART: Final = 0.5
#: How many times the most pairs of a case are measured with the anchor.
_TIMES: Final = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Drift:
    """How far the levels of now are from the anchor."""

    #: The rate of the anchor, and the median of the last levels, that of now included.
    anchor: float
    now: float
    #: Standard error of the log of their ratio, and its degrees of freedom.
    se: float
    df: float

    @property
    def shift(self) -> float:
        """The log of ``now`` over ``anchor``."""
        return math.log(self.now / self.anchor)


def drift(measurement: Measurement, baseline: Baseline) -> Drift | None:
    """Return how far a case has drifted since its anchor; None while too few levels are known.

    A level is the median of a session's runs. The noise is that of levels since the anchor that
    follow each other, so that no drift widens it (von Neumann et al., Ann. Math. Stat. 12, 1941).
    """
    anchor, level = baseline.anchor, baseline.level
    if anchor is None or not anchor.runs:
        return None
    since = level[level.index(anchor) + 1 :] if anchor in level else level
    rates = [statistics.median(session.runs) for session in since if session.runs]
    rates.append(measurement.throughput)
    if len(rates) < _LEVELS:
        return None
    squares = [math.log(later / rate) ** 2 for rate, later in pairwise(rates)]
    count = len(rates)
    return Drift(
        anchor=statistics.median(anchor.runs),
        now=statistics.median(rates[-_LEVELS:]),
        se=math.sqrt(statistics.fmean(squares) / 2 * (1 + _OF_MEDIAN)),
        df=2 * (count - 1) ** 2 / (3 * count - 4),
    )


def is_suspected(measurement: Measurement, baseline: Baseline, rule: Rule) -> bool:
    """Return whether the levels of now are below the anchor by more than the min effect."""
    moved = drift(measurement, baseline)
    return moved is not None and moved.shift < -margin(rule.min_effect)


def case_of_pairs(case: Case) -> Case:
    """Return ``case`` as it is measured in pairs with the anchor: twice as many, where it is open.

    Half of a tolerance takes more pairs to certify, and few cases have crept.
    """
    protocol = case.protocol
    if not protocol.adaptive:
        return case
    return replace(case, protocol=replace(protocol, max_runs=_TIMES * protocol.max_runs))


def rule_of_pairs(rule: Rule) -> Rule:
    """Return the rule by which pairs with the anchor go on: half of the tolerance of ``rule``.

    By the whole, a drift of 3 % would be certified within 5 % night after night.
    """
    return replace(
        rule, tolerance=_PART * (TOLERANCE if rule.tolerance is None else rule.tolerance)
    )


def against_anchor(
    measurement: Measurement, baseline: Baseline, tolerance: float, rule: Rule
) -> Comparison | None:
    """Return the stored levels against the anchor, for a case that no pair decides.

    ``regressed`` where they are certainly more than ``tolerance`` below it, at the error rate of
    ``rule``, else ``passed``; None while too few levels are known.
    """
    moved = drift(measurement, baseline)
    if moved is None:
        return None
    reach = quantile(rule.alpha * rule.alarm_share / rule.family, moved.df) * moved.se
    is_left = moved.shift + reach < -margin(tolerance)
    return Comparison(
        now=moved.now,
        before=moved.anchor,
        change=change_of(moved.shift),
        tolerance=tolerance,
        verdict=Verdict.REGRESSED if is_left else Verdict.PASSED,
    )
