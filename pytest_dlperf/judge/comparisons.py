"""Compares each metric of a case with its baseline; ``verdict`` decides what that means."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.verdict import GOOD, Comparison, Rule
from pytest_dlperf.judge import creep, gates, metrics
from pytest_dlperf.judge.compare import compare, learnt_tolerance
from pytest_dlperf.judge.metrics import MetricValues
from pytest_dlperf.judge.screen import Spending, looked
from pytest_dlperf.judge.stats import family
from pytest_dlperf.judge.stats.contrast import Contrast


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
    tolerance: float
    #: Whether the noise of stored runs made the tolerance, and no user.
    is_learnt: bool


def compare_all(case: Case, measurement: Measurement, baseline: Baseline, rule: Rule) -> Compared:
    """Return the comparison of every metric of a case with the sessions of its baseline."""
    stored = baseline.sessions
    rates = metrics.throughput(case, measurement, stored, rule)
    spent = looked(case, measurement, rule)
    given = given_tolerance(case, baseline, rule)
    if given is None:
        # Noise alone makes a learnt tolerance: it excuses nothing that is certain.
        rates = replace(rates, floor=0.0)
    tolerance = learnt_tolerance(rates, rule, spent) if given is None else given
    other_rule = family.of_other(rule, len(case.metrics))
    others = {
        name: compare(other, capped(other, rule, spent), other_rule, spent)
        for name, other in (
            ("speedup", metrics.speedup(case, measurement, stored, rule)),
            ("peak_memory", metrics.peak_memory(case, measurement, stored)),
        )
        if other is not None
    }
    if (anchor := creep.against_anchor(measurement, baseline, tolerance, other_rule)) is not None:
        others["anchor"] = anchor
    return Compared(
        throughput=compare(rates, tolerance, family.of_throughput(rule), spent),
        others=others,
        gated=gates.compared(case, measurement, stored, rule, spent),
        rates=rates,
        evidence=rates.contrast(),
        spent=spent,
        tolerance=tolerance,
        is_learnt=given is None,
    )


def comparable_still(compared: Compared, *, links: bool, in_doubt: bool) -> set[str]:
    """Return the metrics that may fail a case whose throughput has no verdict.

    Peak memory always, as no machine makes it larger. Where the machine or the run is
    ``in_doubt``, beside it the speedup alone, and only if nothing but the ``links`` between
    devices is slower. Else the speedup where the throughput is not good, and the anchor.
    """
    if in_doubt:
        return {"peak_memory", "speedup"} if links else {"peak_memory"}
    found = {"peak_memory", "anchor"}
    if compared.throughput.verdict not in GOOD:
        found.add("speedup")
    return found


def given_tolerance(case: Case, baseline: Baseline, rule: Rule) -> float | None:
    """Return the tolerance that was set: by the command line, the case, or the baseline."""
    for given in (rule.tolerance, case.tolerance, baseline.tolerance):
        if given is not None:
            return given
    return None


def capped(metric: MetricValues, rule: Rule, spent: Spending) -> float:
    """Return the tolerance learnt from a metric's noise, at most the largest that a rule has."""
    return min(learnt_tolerance(metric, rule, spent), rule.tolerance_max)
