"""Reasons not to judge: another machine, other conditions, a measurement that is not steady."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.synonyms import same_unit
from pytest_dlperf.judge import canary, sentences
from pytest_dlperf.judge.metrics import speedup_level
from pytest_dlperf.judge.stats import priors
from pytest_dlperf.judge.stats.levels import quantile, run_variance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_dlperf.core.baseline import Baseline, Session
    from pytest_dlperf.core.case import Case
    from pytest_dlperf.core.measurement import Measurement
    from pytest_dlperf.core.verdict import Rule

#: Problem codes that make a measurement unfit to be judged.
UNSTEADY: Final = frozenset({"implausible-speedup", "drift", "recompiled"})
DISTURBED: Final = frozenset({"disturbed"})
#: What leaves open whether it was the declared work that was measured.
UNCHECKED: Final = frozenset({"precision-unchecked", "batch-unchecked"})
#: Speedup above the number of devices by more than this is looked at.
_SUPER_LINEAR: Final = 1.05

NO_BASELINE: Final = "no baseline to judge against; store this measurement with --update-baselines"


def _messages(measurement: Measurement, codes: frozenset[str]) -> str:
    found = [problem.message for problem in measurement.problems if problem.code in codes]
    return ", and ".join(message.strip().rstrip(".") for message in found)


def disturbed(measurement: Measurement) -> str:
    """Return why the session was disturbed to the end, or nothing."""
    message = _messages(measurement, DISTURBED)
    return message and f"{message}; {sentences.AGAIN}"


def unchecked(measurement: Measurement) -> str:
    """Return what of the declared work nothing shows, or nothing."""
    message = _messages(measurement, UNCHECKED)
    return message and (
        f"nothing shows that this is the work that the case names: {message}; put the model's "
        "arithmetic and its inputs where they can be seen, into job.data_parallel(model)"
    )


def differs(measurement: Measurement, baseline: Baseline) -> str:
    """Return what makes the stored numbers another quantity than the measured, or nothing."""
    if not same_unit(measurement.unit, baseline.unit):
        fields = f"unit: {measurement.unit}, was {baseline.unit}"
    elif baseline.conditions is not None:
        fields = ", ".join(measurement.conditions.differences(baseline.conditions))
    else:
        fields = ""
    return fields and (
        f"the conditions are not those of the baseline ({fields}); put them back, or "
        f"{sentences.ACCEPT_LEVEL}"
    )


def machine_moved(shift: canary.Shift) -> str:
    """Return the sentence of a machine that is not what it was."""
    change = sentences.change(math.expm1(shift.size))
    what = f"node {shift.node}" if shift.node else "the machine"
    return (
        f"{what} itself is {change} than with the baseline (canary {shift.name}), so the case "
        f"cannot be compared with it; {sentences.SIDE_BY_SIDE}, {sentences.AGAIN}"
    )


def canary_shift(
    case: Case, measurement: Measurement, stored: Sequence[Session]
) -> canary.Shift | None:
    """Return how the machine changed since the stored sessions, or None."""
    return canary.moved(measurement, stored, case.layout.device)


def only_links_slower(case: Case, measurement: Measurement, stored: Sequence[Session]) -> bool:
    """Whether the canary's all-reduce became slower, and nothing else of the machine moved."""
    found = canary.shifts(measurement, stored, case.layout.device)
    return bool(found) and all(one.name == canary.ALL_REDUCE and one.size < 0 for one in found)


def links_slower(shift: canary.Shift) -> str:
    """Return what to say of links that became slower, beside a speedup that fell."""
    return (
        f"the canary's all-reduce itself is {sentences.change(math.expm1(shift.size))}, and "
        "nothing else of the machine moved: look at the links, and at the library that drives them"
    )


def _implausible(case: Case, measurement: Measurement, rule: Rule) -> str:
    """Return why a speedup cannot be, or nothing; beyond the noise of the runs of both sides."""
    level = speedup_level(measurement)
    if level is None or case.world_size < 2 or level.amount <= _SUPER_LINEAR * case.world_size:
        return ""
    variance, df = run_variance([level], priors.of_throughput(case, rule))
    low = level.value - quantile(rule.alpha, df) * math.sqrt(variance * level.share)
    if low <= math.log(case.world_size):
        return ""
    return (
        f"a speedup of {level.amount:.3g} on {case.world_size} devices is implausible: the "
        "one-device runs were slowed, or did other work"
    )


def unsteady(case: Case, measurement: Measurement, rule: Rule) -> str:
    """Return why the measurement itself cannot be trusted, or nothing."""
    message = _messages(measurement, UNSTEADY) or _implausible(case, measurement, rule)
    return message and f"{message}; look at the records of the runs, and measure again"
