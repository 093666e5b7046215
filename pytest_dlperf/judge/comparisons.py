"""Compares each metric of a case with its baseline; ``verdict`` decides what that means."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.verdict import MEMORY_TOLERANCE, TOLERANCE, Comparison, Rule
from pytest_dlperf.judge import creep, gates, metrics
from pytest_dlperf.judge.compare import compare
from pytest_dlperf.judge.metrics import MetricValues
from pytest_dlperf.judge.screen import Spending, looked
from pytest_dlperf.judge.stats import family, priors
from pytest_dlperf.judge.stats.contrast import Contrast, share_of
from pytest_dlperf.judge.stats.priors import ENOUGH_SESSIONS
from pytest_dlperf.judge.stats.stored import far_of


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A case beside its baseline, metric by metric, whether or not it can be judged."""

    throughput: Comparison
    #: Speedup, peak memory and the anchor, where there is something to compare.
    others: dict[str, Comparison]
    #: The metrics that the case asks for.
    gated: dict[str, Comparison]
    #: Rates, now and stored, and what their difference shows.
    rates: MetricValues
    evidence: Contrast
    spent: Spending


def compare_all(case: Case, measurement: Measurement, baseline: Baseline, rule: Rule) -> Compared:
    """Return the comparison of every metric of a case with the sessions of its baseline."""
    stored = baseline.sessions
    rates = metrics.throughput(case, measurement, stored)
    spent = looked(case, measurement)
    tolerance = tolerance_of(case, baseline, rule)
    other_rule = family.of_other(rule, len(case.metrics))
    others = {}
    if (speedup := metrics.speedup(case, measurement, stored)) is not None:
        others["speedup"] = compare(speedup, TOLERANCE, other_rule, spent)
    if (memory := metrics.peak_memory(case, measurement, stored)) is not None:
        memory_rule = family.of_memory(rule, len(case.metrics))
        others["peak_memory"] = compare(memory, MEMORY_TOLERANCE, memory_rule, spent)
    if (anchor := creep.against_anchor(measurement, baseline, tolerance, other_rule)) is not None:
        others["anchor"] = anchor
    return Compared(
        throughput=compare(rates, tolerance, family.of_throughput(rule), spent),
        others=others,
        gated=gates.compared(case, measurement, stored, rule, spent),
        rates=rates,
        evidence=rates.contrast(),
        spent=spent,
    )


def tolerance_of(case: Case, baseline: Baseline | None, rule: Rule) -> float:
    """Return the slowdown up to which a case passes.

    That of the command line, else of the case, else of the baseline, else ``TOLERANCE``; where no
    pairs can follow and few sessions are stored, else the fall that an alarm by them must exceed.
    """
    stored = None if baseline is None else baseline.tolerance
    given = (rule.tolerance, case.tolerance, stored)
    return next((one for one in given if one is not None), _not_given(case, baseline, rule))


def _not_given(case: Case, baseline: Baseline | None, rule: Rule) -> float:
    if not rule.without_pairs or baseline is None or baseline.source.kind != "measured":
        return TOLERANCE
    sessions = sum(bool(session.runs) for session in baseline.level)
    return max(TOLERANCE, share_of(far_of(sessions, priors.of_throughput(case))))


def why_so_wide(case: Case, baseline: Baseline | None, rule: Rule) -> str:
    """Return why a case passes within more than ``TOLERANCE``, which nobody gave, in words.

    Empty where it does not.
    """
    if tolerance_of(case, baseline, rule) == tolerance_of(
        case, baseline, replace(rule, without_pairs=False)
    ):
        return ""
    return f"all that fewer than {ENOUGH_SESSIONS} stored sessions show without pairs"
