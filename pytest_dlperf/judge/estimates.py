"""The verdict on a case, unless it hangs on the rule by which a rate is taken from a run.

Work over time, the mean of each iteration's rate and the median step see the same run
differently where it stalls. Where one of them calls a case regressed and another certifies it,
the run was not in one steady state, and neither is believed.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.core.scaling import most_different
from pytest_dlperf.core.verdict import GOOD, Comparison, Judgement, Rule, Verdict
from pytest_dlperf.judge import sentences
from pytest_dlperf.judge.verdict import judge as judge_by_time

#: What a rule of rates says matters to the gate.
_SAYS: Final = {**dict.fromkeys(GOOD, "certified"), Verdict.REGRESSED: "regressed"}


def judge(
    case: Case, measurement: Measurement, baseline: Baseline | None, rule: Rule
) -> Judgement:
    """Decide about one case by time, and ``unsteady`` if the stored rules of rates disagree.

    Raises ``CaseError`` for rates that can be no throughput, measured or stored.
    """
    judged = judge_by_time(case, measurement, baseline, rule)
    if baseline is None or judged.throughput.change is None:
        return judged
    found = {"work over time": judged.throughput}
    for name in ("mean_of_rates", "median_step"):
        sides = _by_rule(measurement, baseline, name)
        if sides is not None:
            found[name.replace("_", " ")] = judge_by_time(case, *sides, rule).throughput
    if not _disagree(found, rule):
        return judged
    told = ", ".join(
        f"{name} {sentences.signed(one.change or 0.0)}, "
        f"{_SAYS.get(one.verdict or Verdict.INCONCLUSIVE, 'open')}"
        for name, one in found.items()
    )
    reason = (
        "the runs were not in one steady state: rates taken by different rules disagree about "
        f"the change ({told}){_stretch(measurement)}; look at the records of the runs, and "
        "measure again"
    )
    unsteady = replace(
        judged.throughput, change=None, interval=None, sees=None, verdict=Verdict.UNSTEADY
    )
    return Judgement(verdict=Verdict.UNSTEADY, reason=reason, throughput=unsteady)


def _by_rule(
    measurement: Measurement, baseline: Baseline, name: str
) -> tuple[Measurement, Baseline] | None:
    """Return both sides with their runs by another rule; None where a side does not know it.

    Without parents and memory: those are not told by this rule.
    """
    stored = [session for session in baseline.level if session.runs]
    if not all(name in run.estimates for run in measurement.runs):
        return None
    if not stored or not all(name in session.estimates for session in stored):
        return None
    rates = [run.estimates[name] for run in measurement.runs]
    if not all(math.isfinite(rate) and rate > 0 for rate in rates):
        return None
    runs = tuple(
        replace(run, throughput=rate, peak_memory_bytes=None)
        for run, rate in zip(measurement.runs, rates, strict=True)
    )
    sessions = tuple(
        replace(
            session,
            runs=session.estimates[name],
            speedup=None,
            parent_runs=(),
            peak_memory_bytes=(),
        )
        for session in stored
    )
    return (
        replace(measurement, runs=runs, parent_throughputs=()),
        replace(baseline, sessions=sessions),
    )


def _disagree(found: dict[str, Comparison], rule: Rule) -> bool:
    """Whether one rule calls regressed what another certifies, by more than ``min_effect``."""
    changes: dict[str, list[float]] = {}
    for one in found.values():
        if one.verdict in _SAYS and one.change is not None:
            changes.setdefault(_SAYS[one.verdict], []).append(one.change)
    if len(changes) < 2:
        return False
    return max(changes["certified"]) - min(changes["regressed"]) > rule.min_effect


def _stretch(measurement: Measurement) -> str:
    """Name the oddest stretch of the run whose rules disagree most."""

    def gap(run: RunSummary) -> float:
        return max(abs(math.log(rate / run.throughput)) for rate in run.estimates.values())

    first, end = measurement.conditions.window
    run = max(measurement.runs, key=gap)
    stretch = most_different(run.step_seconds[first:end], first)
    return f": {stretch.words(run.throughput, measurement.unit)}" if stretch else ""
