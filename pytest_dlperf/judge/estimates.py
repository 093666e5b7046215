"""Judges a case under every rate estimator: ``unsteady`` if they disagree.

Work over time, the mean of each iteration's rate and the median step differ where a run stalls.
If by one of them the case is regressed and by another it is certified, the run was not in one
steady state, and neither verdict is used.
"""

from __future__ import annotations

import math
from typing import Final

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.core.stretch import most_different
from pytest_dlperf.core.verdict import GOOD, Comparison, Judgement, Rule, Verdict
from pytest_dlperf.judge import sentences
from pytest_dlperf.judge.readings import ESTIMATORS, by_estimator
from pytest_dlperf.judge.verdict import judge_by_time, with_facts

#: The verdicts on which estimators can disagree.
_VERDICT_WORDS: Final = {**dict.fromkeys(GOOD, "certified"), Verdict.REGRESSED: "regressed"}


def judge(
    case: Case, measurement: Measurement, baseline: Baseline | None, rule: Rule
) -> Judgement:
    """Return the verdict by work over time, or ``unsteady`` if the estimators disagree.

    Raises ``CaseError`` for measured or stored rates that are not positive finite numbers.
    """
    judged = judge_by_time(case, measurement, baseline, rule)
    if baseline is None or not judged.throughput.is_judged:
        return judged
    found = {"work over time": judged.throughput}
    for name in ESTIMATORS:
        sides = by_estimator(measurement, baseline, name)
        if sides is not None:
            found[name.replace("_", " ")] = judge_by_time(case, *sides, rule).throughput
    if not _disagree(found, rule):
        return judged
    estimates = ", ".join(
        f"{name} {sentences.signed(one.change or 0.0)}, "
        f"{_VERDICT_WORDS.get(one.verdict or Verdict.INCONCLUSIVE, 'open')}"
        for name, one in found.items()
    )
    reason = (
        "the runs were not in one steady state: rates computed by different rules disagree about "
        f"the change ({estimates}){_stretch(measurement)}; look at the records of the runs, and "
        "measure again"
    )
    throughput = judged.throughput.as_refused(Verdict.UNSTEADY)
    unsteady = Judgement(verdict=Verdict.UNSTEADY, reason=reason, throughput=throughput)
    stored = tuple(session for session in baseline.level if session.runs)
    return with_facts(unsteady, case, measurement, stored, rule)


def _disagree(found: dict[str, Comparison], rule: Rule) -> bool:
    """Whether one certifies what another calls regressed, more than ``min_effect`` apart."""
    changes: dict[str, list[float]] = {}
    for one in found.values():
        if one.verdict in _VERDICT_WORDS and one.change is not None:
            changes.setdefault(_VERDICT_WORDS[one.verdict], []).append(one.change)
    if len(changes) < 2:
        return False
    return max(changes["certified"]) - min(changes["regressed"]) > rule.min_effect


def _stretch(measurement: Measurement) -> str:
    """Return in words the oddest stretch of the run whose estimators disagree most."""

    def gap(run: RunSummary) -> float:
        return max(abs(math.log(rate / run.throughput)) for rate in run.estimates.values())

    first, end = measurement.conditions.window
    run = max(measurement.runs, key=gap)
    stretch = most_different(run.step_seconds[first:end], first)
    return f": {stretch.words(run.throughput, measurement.unit)}" if stretch else ""
