"""Splits error rates: of alarms over cases and their metrics, of certificates over stages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from pytest_dlperf.core.baseline import Baseline, level_of
from pytest_dlperf.core.verdict import MEMORY_TOLERANCE, Rule
from pytest_dlperf.judge.screen import Spending

#: The part of a case's error rate for its throughput, in which most slowdowns show.
_THROUGHPUT: Final = 0.8
#: Other gated metrics of a case, at most: speedup, peak memory and the anchor against stored
#: sessions; the whole window, peak memory and CPU seconds of pairs.
_OTHERS: Final = 3


def family_size(baselines: Iterable[Baseline]) -> int:
    """Return the number of cases that alpha is split over: those with a measured baseline.

    Cases that ``-k`` deselects count too, so that a selection does not change a verdict.
    """
    measured = (baseline for baseline in baselines if baseline.source.kind == "measured")
    return max(1, sum(bool(level_of(baseline.sessions)) for baseline in measured))


def alarm_alpha(rule: Rule, spent: Spending) -> float:
    """Return the error rate of one alarm, split over the suite, the metrics and the looks."""
    return rule.alpha * rule.alarm_share * spent.alarm / max(1, rule.family)


def certify_alpha(rule: Rule, spent: Spending) -> float:
    """Return the error rate of one certificate, split over the stages and the looks."""
    return rule.alpha * rule.certify_share * spent.certify


def throughput_rule(rule: Rule) -> Rule:
    """Return the rule for the throughput of a case that has other gated metrics too."""
    return replace(rule, alarm_share=_THROUGHPUT)


def metric_rule(rule: Rule, asked: int = 0) -> Rule:
    """Return the rule for another gated metric of a case; ``asked``: those of its marker.

    All of a case together spend its error rate at most (Bonferroni).
    """
    return replace(rule, alarm_share=(1 - _THROUGHPUT) / (_OTHERS + asked))


def memory_rule(rule: Rule, asked: int = 0) -> Rule:
    """Return the rule for the peak memory; ``asked`` is that of ``metric_rule``."""
    least = max(rule.min_effect, MEMORY_TOLERANCE)
    return replace(metric_rule(rule, asked), min_effect=least)
