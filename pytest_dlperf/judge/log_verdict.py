"""The verdict on training logs against others: the same comparison, and what explains it."""

from __future__ import annotations

import itertools
import math
import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.noise import Prior
from pytest_dlperf.core.verdict import Comparison, Judgement, Verdict
from pytest_dlperf.judge import log_sides, refusals, sentences
from pytest_dlperf.judge.compare import compare, learnt_tolerance
from pytest_dlperf.judge.metrics import Metric, check_rates, level
from pytest_dlperf.judge.screen import ONE_LOOK
from pytest_dlperf.judge.stats.margins import margin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_dlperf.core.verdict import Rule
    from pytest_dlperf.judge.log_sides import LogArm

#: Of 64 configurations of published reports, 90 % repeat within this standard deviation.
LOG_PRIOR: Final = Prior(run_sd=0.017, session_sd=0.006)
#: From this share on, something explains a change.
_EXPLAINS: Final = 0.5


def judge_logs(before: LogArm, now: LogArm, rule: Rule) -> Judgement:
    """Decide whether the training of ``now`` is slower than that of ``before``.

    The sides must be the same training: another world size, batch, precision or unit is
    ``incomparable``, and so is a log that contradicts itself there; what one side does not say is
    told. A loss that is no finite number is an ``error``. Where the rules by which a rate is taken
    from a log disagree about the direction, or about being beyond the tolerance, it is
    ``unsteady``. Raises ``CaseError`` for a rate that can be none.
    """
    rates = [rate for session in now.sessions for rate in session]
    check_rates(rates, now.name)
    for session in before.sessions:
        check_rates(session, before.name)
    for verdict, reason in (
        (Verdict.ERROR, log_sides.problems(before, now, log_sides.LOST)),
        (Verdict.INCOMPARABLE, log_sides.differs(before, now)),
        (Verdict.INCOMPARABLE, log_sides.problems(before, now, log_sides.DOUBTFUL)),
        (Verdict.UNSTEADY, log_sides.problems(before, now, refusals.UNSTEADY)),
    ):
        if reason:
            known = Comparison(now=statistics.median(rates), verdict=verdict)
            return Judgement(verdict=verdict, reason=reason, throughput=known)
    metric = Metric(
        now=level(rates),
        stored=tuple(level(session) for session in before.sessions),
        prior=LOG_PRIOR,
        planned=level(rates).share,
    )
    given = rule.tolerance
    tolerance = learnt_tolerance(metric, rule, ONE_LOOK) if given is None else given
    tolerance = tolerance if given is not None else min(tolerance, rule.tolerance_max)
    found = compare(metric, tolerance, rule, ONE_LOOK)
    how = sentences.how_much(found, now.unit, before.name)
    if disagreement := _disagreement(before, now, tolerance):
        known = replace(found, change=None, interval=None, verdict=Verdict.UNSTEADY)
        return Judgement(
            verdict=Verdict.UNSTEADY, reason=f"{disagreement}; by time, {how}", throughput=known
        )
    notes = (
        _attribution(before, now, found),
        log_sides.unknown(before, now),
        log_sides.same_files(before, now),
    )
    why = "; ".join(itertools.chain.from_iterable(notes))
    reason = f"{how}{sentences.certainty(found, rule)}" + (f"; {why}" if why else "")
    return Judgement(
        verdict=found.verdict or Verdict.INCONCLUSIVE, reason=reason, throughput=found
    )


def _disagreement(before: LogArm, now: LogArm, tolerance: float) -> str:
    """Say which rules of taking a rate tell different stories of the change, or nothing."""
    if not before.runs or not now.runs:
        return ""
    limit = margin(tolerance)
    changes = {}
    for rule in ("mean_of_rates", "median_of_rates", "time_weighted"):
        sides = [
            statistics.median(run.estimates[rule] for run in arm.runs) for arm in (before, now)
        ]
        changes[rule] = math.log(sides[1] / sides[0])
    stories = {(change > limit) - (change < -limit) for change in changes.values()}
    if len(stories) == 1:
        return ""
    told = ", ".join(
        f"{rule.replace('_', ' ')} {sentences.signed(math.expm1(change))}"
        for rule, change in changes.items()
    )
    stalls = [run.stall for arm in (now, before) for run in arm.runs if run.stall]
    return f"rates of the same log disagree about the change ({told})" + (
        f": {stalls[0]}" if stalls else ""
    )


def _attribution(before: LogArm, now: LogArm, found: Comparison) -> Sequence[str]:
    """Say what the logs themselves show of the reason."""
    change = found.change or 0.0
    waits = [
        [run.data_wait_share for run in arm.runs if run.data_wait_share is not None]
        for arm in (before, now)
    ]
    if change >= 0 or not all(waits) or found.before is None or found.now is None:
        return ()
    shares = [statistics.median(side) for side in waits]
    times = [1 / found.before, 1 / found.now]
    longer = times[1] - times[0]
    waited = times[1] * shares[1] - times[0] * shares[0]
    if waited < _EXPLAINS * longer:
        return ()
    part = min(1.0, waited / longer)
    return (
        f"waiting for data explains {part:.0%} of it: {sentences.percent(shares[1])} of the time, "
        f"was {sentences.percent(shares[0])}",
    )
