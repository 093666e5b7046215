"""Judges training logs against other logs or a baseline, and says what explains a change."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_dlperf.core.quantity import same_precision, same_unit
from pytest_dlperf.core.run import Problem
from pytest_dlperf.core.verdict import TOLERANCE, Comparison, Judgement, Prior, Rule, Verdict
from pytest_dlperf.judge import refusals, sentences
from pytest_dlperf.judge.compare import compare
from pytest_dlperf.judge.metrics import MetricValues, check_rates, session_value
from pytest_dlperf.judge.screen import ONE_LOOK
from pytest_dlperf.judge.stats.contrast import margin
from pytest_dlperf.judge.stats.priors import LOGS

#: Problem codes that leave open which training a log measured.
DOUBTFUL: Final = (
    frozenset({"world-size-mismatch", "batch-size-mismatch", "precision-mismatch"})
    | refusals.UNCHECKED
    | refusals.DISTURBED
)
#: Problem codes of a failed training, whose speed is meaningless.
LOST: Final = frozenset({"loss-not-finite", "not-trained"})
_ESTIMATORS: Final = ("mean_of_rates", "median_of_rates", "time_weighted")
#: The smallest share of a change that counts as its explanation.
_EXPLAINS: Final = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class LogRun:
    """One run, as one log reports it. Rates are global, in the unit a second."""

    throughput: float
    #: By other estimators as well: ``mean_of_rates``, ``median_of_rates``, ``time_weighted``.
    estimates: Mapping[str, float]
    data_wait_share: float | None = None
    #: The stretch that disagrees most, in words; empty if the estimators agree.
    stall: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LogSide:
    """One side: runs of one training, or the sessions of a baseline."""

    name: str
    unit: str
    #: Throughputs of the runs of each session.
    sessions: tuple[tuple[float, ...], ...]
    world_size: int | None = None
    batch_size_per_device: int | None = None
    precision: str | None = None
    #: The runs as logs report them; empty where only rates are known.
    runs: tuple[LogRun, ...] = ()
    #: Problems of the runs, which may prevent a verdict.
    problems: tuple[Problem, ...] = ()
    #: Other problems: shown, but they never prevent a verdict.
    remarks: tuple[Problem, ...] = ()
    #: The files that it was read from.
    files: frozenset[str] = frozenset()
    #: The format of the logs, and whether they have a loss; None where no log was read.
    log_format: str | None = None
    has_loss: bool | None = None


def judge_logs(before: LogSide, now: LogSide, rule: Rule, *, prior: Prior = LOGS) -> Judgement:
    """Return the verdict on the training of ``now`` against that of ``before``.

    The sides must be the same training: another world size, batch, precision or unit is
    ``incomparable``, and so is a log that contradicts itself there; the sentence names what a
    side does not report. A training that failed, by its log, is an ``error``. Where the rate
    estimators disagree about the direction of a change, or about its exceeding the tolerance, the
    verdict is ``unsteady``. Raises ``CaseError`` for a rate that is not a positive finite number.
    """
    rates = [rate for session in now.sessions for rate in session]
    if failed := failure(before, now):
        return Judgement(
            verdict=Verdict.ERROR,
            reason=failed,
            throughput=Comparison(
                now=statistics.median(rates) if rates else None, verdict=Verdict.ERROR
            ),
        )
    check_rates(rates, now.name)
    for session in before.sessions:
        check_rates(session, before.name)
    for verdict, reason in (
        (Verdict.INCOMPARABLE, differs(before, now)),
        (Verdict.INCOMPARABLE, problem_reason(before, now, DOUBTFUL)),
        (Verdict.UNSTEADY, problem_reason(before, now, refusals.UNSTEADY)),
    ):
        if reason:
            known = Comparison(now=statistics.median(rates), verdict=verdict)
            if same_unit(now.unit, before.unit):
                found, _ = _compared(before.sessions, rates, rule, prior)
                known = found.as_refused(verdict)
            return Judgement(verdict=verdict, reason=reason, throughput=known)
    found, tolerance = _compared(before.sessions, rates, rule, prior)
    how = sentences.how_much(found, now.unit, before.name)
    disagreement = _disagreement(before, now, tolerance)
    if disagreement and not _all_slower(before, now, found, rule, prior):
        known = found.as_refused(Verdict.UNSTEADY)
        return Judgement(
            verdict=Verdict.UNSTEADY, reason=f"{disagreement}; by time, {how}", throughput=known
        )
    notes = (
        _attribution(before, now, found),
        unknown(before, now),
        same_files(before, now),
    )
    why = "; ".join(itertools.chain.from_iterable(notes))
    reason = f"{how}{sentences.certainty(found, rule)}" + (f"; {why}" if why else "")
    return Judgement(
        verdict=found.verdict or Verdict.INCONCLUSIVE, reason=reason, throughput=found
    )


def _compared(
    stored: Sequence[Sequence[float]], rates: Sequence[float], rule: Rule, prior: Prior
) -> tuple[Comparison, float]:
    """Return the comparison of rates with those of stored sessions, and its tolerance."""
    metric = MetricValues(
        now=session_value(rates),
        stored=tuple(session_value(session) for session in stored),
        prior=prior,
    )
    tolerance = TOLERANCE if rule.tolerance is None else rule.tolerance
    return compare(metric, tolerance, rule, ONE_LOOK), tolerance


def _all_slower(
    before: LogSide, now: LogSide, found: Comparison, rule: Rule, prior: Prior
) -> bool:
    """Whether the training regressed by each of the rates of its logs."""
    verdicts = {found.verdict}
    for name in _ESTIMATORS:
        theirs, mine = ([run.estimates[name] for run in side.runs] for side in (before, now))
        verdicts.add(_compared([theirs], mine, rule, prior)[0].verdict)
    return verdicts == {Verdict.REGRESSED}


def differs(before: LogSide, now: LogSide) -> str:
    """Return what makes the sides different trainings, or nothing."""
    fields = [
        f"{words}: {mine}, was {theirs}"
        for words, mine, theirs, same in (
            ("unit", now.unit, before.unit, same_unit(now.unit, before.unit)),
            *(
                (words, mine, theirs, _is_same(mine, theirs))
                for words, mine, theirs in _conditions(before, now)
            ),
        )
        if not same
    ]
    return f"these are not the same training ({', '.join(fields)})" if fields else ""


def _conditions(
    before: LogSide, now: LogSide
) -> tuple[tuple[str, int | str | None, int | str | None], ...]:
    """Return what must be equal, now and before, each in words; None is unknown."""
    return (
        ("devices", now.world_size, before.world_size),
        ("batch size per device", now.batch_size_per_device, before.batch_size_per_device),
        ("precision", now.precision, before.precision),
    )


def _is_same(mine: int | str | None, theirs: int | str | None) -> bool:
    if mine is None or theirs is None:
        return True
    if isinstance(mine, str) and isinstance(theirs, str):
        return same_precision(mine, theirs)
    return mine == theirs


def problem_reason(before: LogSide, now: LogSide, codes: frozenset[str]) -> str:
    """Return why problems with these codes prevent a verdict, or nothing."""
    found = [p.message for side in (before, now) for p in side.problems if p.code in codes]
    what = "; ".join(dict.fromkeys(found))
    if not what or codes is not DOUBTFUL:
        return what
    return f"which training was measured is in doubt, so nothing is compared ({what})"


def failure(before: LogSide, now: LogSide) -> str:
    """Return why the speed of a side means nothing, as its training failed; or nothing."""
    vanished = before.has_loss and now.has_loss is False and before.log_format == now.log_format
    failed = problem_reason(before, now, LOST)
    if vanished and not failed:
        return (
            f"the logs of {before.name} have a loss, and those of {now.name} none, so nothing "
            "shows that it trained"
        )
    return failed


def unknown(before: LogSide, now: LogSide) -> Sequence[str]:
    """Return in words which conditions were not compared, as a side does not report them."""
    silent: dict[str, list[str]] = {}
    for words, mine, theirs in _conditions(before, now):
        if mine is None or theirs is None:
            both = "neither side reports its"
            one = f"{before.name if theirs is None else 'the log'} does not report its"
            silent.setdefault(both if mine is theirs else one, []).append(words)
    return [f"{who} {' and '.join(words)}" for who, words in silent.items()]


def same_files(before: LogSide, now: LogSide) -> Sequence[str]:
    """Return in words which files are on both sides: a file does not differ from itself."""
    shared = sorted(before.files & now.files)
    if not shared:
        return ()
    if before.files == now.files:
        return ("both sides are the same " + ("file" if len(shared) == 1 else "files"),)
    return (f"{', '.join(shared)} {'is' if len(shared) == 1 else 'are'} on both sides",)


def _disagreement(before: LogSide, now: LogSide, tolerance: float) -> str:
    """Return in words how the rate estimators disagree about the change, or nothing."""
    if not before.runs or not now.runs:
        return ""
    limit = margin(tolerance)
    changes = {}
    for rule in _ESTIMATORS:
        sides = [
            statistics.median(run.estimates[rule] for run in side.runs) for side in (before, now)
        ]
        changes[rule] = math.log(sides[1] / sides[0])
    directions = {(change > limit) - (change < -limit) for change in changes.values()}
    if len(directions) == 1:
        return ""
    by_rule = ", ".join(
        f"{rule.replace('_', ' ')} {sentences.signed(math.expm1(change))}"
        for rule, change in changes.items()
    )
    stalls = [run.stall for side in (now, before) for run in side.runs if run.stall]
    return f"rates of the same log disagree about the change ({by_rule})" + (
        f": {stalls[0]}" if stalls else ""
    )


def _attribution(before: LogSide, now: LogSide, found: Comparison) -> Sequence[str]:
    """Return in words the part of a slowdown that waiting for data explains."""
    change = found.change or 0.0
    waits = [
        [run.data_wait_share for run in side.runs if run.data_wait_share is not None]
        for side in (before, now)
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
