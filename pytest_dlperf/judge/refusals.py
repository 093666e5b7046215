"""Reasons not to judge: another machine, other conditions, an unsteady run, no time left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pytest_dlperf.core.baseline import Baseline, Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.measurement import CUT_SHORT, Measurement
from pytest_dlperf.core.quantity import same_unit
from pytest_dlperf.core.run import MACHINE_DRIFTED, Problem, RunSummary
from pytest_dlperf.core.verdict import Comparison, Judgement, Rule, Verdict
from pytest_dlperf.judge import canary, sentences
from pytest_dlperf.judge.metrics import speedup_value
from pytest_dlperf.judge.stats import priors
from pytest_dlperf.judge.stats.contrast import quantile, run_variance

#: Problem codes that make a measurement unfit to be judged.
UNSTEADY: Final = frozenset({"implausible-speedup", "drift", "recompiled", "clocks-disagree"})
#: Those of them that leave open which part of a window is the case's own.
_DRIFTING: Final = frozenset({"drift", "recompiled"})
DISTURBED: Final = frozenset({"disturbed"})
#: Problem codes that leave open whether the declared work was measured.
UNCHECKED: Final = frozenset({"precision-unchecked", "batch-unchecked"})
#: A speedup above this times the number of devices is suspect.
_SUPER_LINEAR: Final = 1.05

NO_BASELINE: Final = "no baseline to judge against; store this measurement with --update-baselines"


def disturbed(measurement: Measurement) -> str:
    """Return why the measurement stayed disturbed, or nothing."""
    message = _messages(measurement, DISTURBED)
    again = f"measure again when the machine is quiet, or {sentences.SIDE_BY_SIDE}"
    first = "others disturbed its runs; measure again when the machine is quiet"
    return message and f"{first}\n{message}; {again}"


def unchecked(measurement: Measurement) -> str:
    """Return which part of the declared work could not be checked, or nothing."""
    message = _messages(measurement, UNCHECKED)
    return message and f"nothing shows that this is the work that the case names\n{message}"


def differs(measurement: Measurement, baseline: Baseline) -> str:
    """Return how the conditions differ from those of the baseline, or nothing."""
    fields: list[str] = []
    if not same_unit(measurement.unit, baseline.unit):
        fields = [f"unit: {measurement.unit}, was {baseline.unit}"]
    elif baseline.conditions is not None:
        fields = list(measurement.conditions.differences(baseline.conditions))
    if not fields:
        return ""
    name = fields[0].partition(":")[0] + (
        f" and {len(fields) - 1} more" if len(fields) > 1 else ""
    )
    return (
        f"its conditions are not the stored ones ({name}); restore them, or accept them: "
        f"{sentences.ACCEPT}\nthe conditions are not those of the baseline ({', '.join(fields)})"
    )


def unsteady(case: Case, measurement: Measurement, rule: Rule) -> str:
    """Return why the measurement itself cannot be trusted, or nothing."""
    message = _messages(measurement, UNSTEADY) or _implausible(case, measurement, rule)
    first = "its runs cannot be trusted; look at their records, and measure again"
    return message and f"{first}\n{message}"


def without_drift_of_machine(measurement: Measurement) -> Measurement:
    """Return an arm in lock-step without its drift, unless that is its own in most runs."""
    drifting = [run for run in measurement.runs if _has(run, "drift")]
    own = [run for run in drifting if not _has(run, MACHINE_DRIFTED)]
    if len(own) == len(drifting) or 2 * len(own) > len(measurement.runs):
        return measurement
    problems = tuple(one for one in measurement.problems if one.code != "drift")
    return replace(measurement, problems=problems)


def _has(run: RunSummary, code: str) -> bool:
    return any(problem.code == code for problem in run.problems)


def drifts(measurement: Measurement) -> bool:
    """Whether the steps of a run are not all alike, so that its parts have rates of their own."""
    return bool(_messages(measurement, _DRIFTING))


def machine_moved(shift: canary.Shift) -> str:
    """Return the sentence of a machine that changed."""
    change = sentences.change(math.expm1(shift.size))
    what = f"node {shift.node}" if shift.node else "the machine"
    return (
        f"{what} itself is {change} than with the baseline; {sentences.AS_BEFORE}\n"
        f"canary {shift.name}: the case cannot be compared with the baseline; "
        f"{sentences.SIDE_BY_SIDE}"
    )


def machine_explains_nothing(shift: canary.Shift) -> str:
    """Return the words about a machine that moved by too little to be all of a change."""
    by = sentences.change(math.expm1(shift.size))
    return f"; the machine is {by} (canary {shift.name}), which does not explain it"


def canary_shifts(
    case: Case, measurement: Measurement, stored: Sequence[Session]
) -> list[canary.Shift]:
    """Return how the machine changed since the stored sessions, the largest shift first."""
    found = canary.shifts(measurement, stored, case.layout.device)
    return sorted(found, key=lambda one: abs(one.size), reverse=True)


def only_links_slower(case: Case, measurement: Measurement, stored: Sequence[Session]) -> bool:
    """Whether the canary's all-reduce became slower, and nothing else of the machine moved."""
    found = canary.shifts(measurement, stored, case.layout.device)
    return bool(found) and all(one.name in canary.OF_LINKS and one.size < 0 for one in found)


def links_slower(shift: canary.Shift) -> str:
    """Return the words about slower links, for a speedup that fell."""
    return (
        f"the canary's all-reduce itself is {sentences.change(math.expm1(shift.size))}, and "
        "nothing else of the machine moved: look at the links, and at the library that drives them"
    )


def marked_cut_short(measurement: Measurement, why: str) -> Measurement:
    """Return the measurement with the problem ``CUT_SHORT``, for ``why``: it is never stored."""
    message = f"{why}; a session cut short cannot be a baseline"
    problem = Problem(code=CUT_SHORT, message=message)
    return replace(measurement, problems=(*measurement.problems, problem))


def cut_short(judgement: Judgement, budget: str, *, looked: bool) -> Judgement:
    """Return the judgement of a case whose further runs the budget did not allow.

    ``looked``: there are as many runs as the first look needs. It has its own part of the error
    rate, so a case that is slower by it stays ``regressed``; with fewer runs it is
    ``inconclusive``, unless a count is worse, which one run shows. ``budget`` is its length, in
    words.
    """
    spent = f"the budget of {budget} is spent"
    if judgement.verdict is Verdict.INCONCLUSIVE:
        return replace(judgement, reason=f"{judgement.reason}\n{spent}")
    if judgement.verdict is not Verdict.REGRESSED:
        return judgement
    words = f"the budget of {budget} was spent before fresh runs confirmed it"
    if looked:
        return replace(judgement, reason=f"{judgement.reason}\n{words}")
    if any(_is_worse_count(found) for found in judgement.metrics.values()):
        return replace(judgement, reason=f"{judgement.reason}\n{spent}")
    reason = f"{judgement.reason}\n{words}; run it again, it runs first next time"
    return replace(
        judgement,
        verdict=Verdict.INCONCLUSIVE,
        reason=reason,
        throughput=_open(judgement.throughput),
        metrics={name: _open(found) for name, found in judgement.metrics.items()},
    )


def never_measured(case_id: str, budget: str) -> Judgement:
    """Return the judgement of a case for which the budget left no run."""
    return Judgement(
        verdict=Verdict.INCONCLUSIVE,
        reason=f"{case_id} was not measured: the budget of {budget} was spent before; it runs "
        "first next time, or raise --dlperf-budget",
    )


def _messages(measurement: Measurement, codes: frozenset[str]) -> str:
    found = [problem.message for problem in measurement.problems if problem.code in codes]
    return ", and ".join(message.strip().rstrip(".") for message in found)


def _implausible(case: Case, measurement: Measurement, rule: Rule) -> str:
    """Return why a speedup is impossible beyond the noise of the runs, or nothing."""
    level, reference = speedup_value(measurement), measurement.reference
    ideal = case.world_size / (1 if reference is None else reference.world_size)
    if level is None or ideal <= 1 or level.amount <= _SUPER_LINEAR * ideal:
        return ""
    variance, df = run_variance([level], priors.of_throughput(case))
    low = level.value - quantile(rule.alpha, df) * math.sqrt(variance * level.share)
    if low <= math.log(ideal):
        return ""
    if reference is not None:
        return (
            f"a speedup of {level.amount:.3g} of {case.layout} over {reference} is implausible: "
            f"the runs of {reference} were slowed, or did other work"
        )
    return (
        f"a speedup of {level.amount:.3g} on {case.world_size} devices is implausible: the "
        "one-device runs were slowed, or did other work"
    )


def _is_worse_count(found: Comparison) -> bool:
    """Whether a count fails the case: it has a tolerance of 0, and no interval."""
    is_count = found.tolerance == 0 and found.interval is None
    return is_count and found.verdict is Verdict.REGRESSED


def _open(found: Comparison) -> Comparison:
    if found.verdict is not Verdict.REGRESSED:
        return found
    return replace(found, verdict=Verdict.INCONCLUSIVE)
