"""Training logs against other logs or stored sessions, and what explains a change."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pytest_dlperf.core.finding import Finding, Weight
from pytest_dlperf.core.quantity import percent, same_precision, same_unit, same_work
from pytest_dlperf.core.run import Problem
from pytest_dlperf.core.verdict import TOLERANCE, Comparison, Prior, Rule, Verdict
from pytest_dlperf.judge.compare import compare
from pytest_dlperf.judge.evidence import Disagreement, Evidence, Kind
from pytest_dlperf.judge.problem_codes import LOST
from pytest_dlperf.judge.screen import ONE_LOOK
from pytest_dlperf.judge.sides import Sides, check_rates, session_value
from pytest_dlperf.judge.stats.contrast import margin
from pytest_dlperf.judge.stats.priors import LOGS

_ESTIMATORS: Final = ("mean_of_rates", "median_of_rates", "time_weighted")
#: Stamps are rounded, and have evaluations in them: only a change that differs by more counts.
_CLOCK_APART: Final = math.log(1.15)
#: The smallest share of a change that counts as its explanation.
_EXPLAINS: Final = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class LogRun:
    """One run, as one log reports it. Rates are global, in the unit a second."""

    throughput: float
    #: By other estimators as well: ``mean_of_rates``, ``median_of_rates``, ``time_weighted``.
    estimates: Mapping[str, float]
    #: By the time stamps of the log's lines; None where they say nothing.
    iterations_per_s_by_clock: float | None = None
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
    #: Work of an iteration of all devices, in the unit; None where it is unknown, or varies.
    iteration_work: float | None = None
    #: The same in the logs' own unit, where the unit is iterations.
    stated_work: float | None = None
    #: Tokens of a sequence.
    sequence_length: int | None = None
    #: Pixels of an image's longer side.
    image_size: int | None = None
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


def evidence_of_logs(
    before: LogSide, now: LogSide, rule: Rule, *, prior: Prior = LOGS
) -> Evidence:
    """Return the training of ``now`` beside that of ``before``.

    Raises ``CaseError`` for a rate that is not a positive finite number, unless a training failed.
    """
    rates = [rate for session in now.sessions for rate in session]
    evidence = Evidence(
        kind=Kind.LOGS,
        rule=rule,
        unit=now.unit,
        throughput=statistics.median(rates) if rates else None,
        against=before.name,
        failure=failure(before, now),
        differences=_differences(before, now),
        problems=(before.problems, now.problems),
    )
    if evidence.failure:
        return evidence
    check_rates(rates, now.name)
    for session in before.sessions:
        check_rates(session, before.name)
    if not same_unit(now.unit, before.unit):
        return evidence
    tolerance = TOLERANCE if rule.tolerance is None else rule.tolerance
    sides = _sides(before.sessions, rates, prior)
    rate = compare(sides, tolerance, rule, ONE_LOOK)
    disagreement = _disagreement(before, now, tolerance)
    by_estimator = {}
    if disagreement is not None:
        for name in _ESTIMATORS:
            rates_before, rates_now = (
                [run.estimates[name] for run in side.runs] for side in (before, now)
            )
            by_estimator[name] = compare(
                _sides([rates_before], rates_now, prior), tolerance, rule, ONE_LOOK
            )
    verdicts = {rate.verdict, *(compared.verdict for compared in by_estimator.values())}
    return replace(
        evidence,
        comparisons={"throughput": rate},
        contrast=sides.contrast(),
        disagreement=disagreement,
        is_slower_anyway=bool(by_estimator) and verdicts == {Verdict.REGRESSED},
        notes=tuple(_notes(before, now, rate)),
    )


def _sides(stored: Sequence[Sequence[float]], rates: Sequence[float], prior: Prior) -> Sides:
    values = tuple(session_value(session) for session in stored)
    return Sides(now=session_value(rates), stored=values, prior=prior)


def _differences(before: LogSide, now: LogSide) -> tuple[str, ...]:
    """Return what makes the sides different trainings."""
    works = (
        (now.iteration_work, before.iteration_work),
        (now.stated_work, before.stated_work),
    )
    fields = (
        ("unit", now.unit, before.unit, same_unit(now.unit, before.unit)),
        *(
            ("work of an iteration", round(work), round(former), same_work(work, former))
            for work, former in works
            if work is not None and former is not None
        ),
        *(
            (name, size, former, _is_same(size, former))
            for name, size, former in (
                ("sequence length", now.sequence_length, before.sequence_length),
                ("image size", now.image_size, before.image_size),
            )
        ),
        *(
            (name, value, former, _is_same(value, former))
            for name, value, former in _conditions(before, now)
        ),
    )
    return tuple(
        f"{name}: {value}, was {former}" for name, value, former, same in fields if not same
    )


def _conditions(
    before: LogSide, now: LogSide
) -> tuple[tuple[str, int | str | None, int | str | None], ...]:
    """Return what must be equal, now and before, each in words; None is unknown."""
    return (
        ("devices", now.world_size, before.world_size),
        ("batch size per device", now.batch_size_per_device, before.batch_size_per_device),
        ("precision", now.precision, before.precision),
    )


def _is_same(value: int | str | None, former: int | str | None) -> bool:
    if value is None or former is None:
        return True
    if isinstance(value, str) and isinstance(former, str):
        return same_precision(value, former)
    return value == former


def failure(before: LogSide, now: LogSide) -> str:
    """Return why the speed of a side means nothing, as its training failed; or nothing."""
    messages = [
        problem.message
        for side in (before, now)
        for problem in side.problems
        if problem.code in LOST
    ]
    if messages:
        return "; ".join(dict.fromkeys(messages))
    if before.has_loss and now.has_loss is False and before.log_format == now.log_format:
        return (
            f"the logs of {before.name} have a loss, and those of {now.name} none, so nothing "
            "shows that it trained"
        )
    return ""


def _disagreement(before: LogSide, now: LogSide, tolerance: float) -> Disagreement | None:
    """Return how the rate estimators disagree about the change; None if they do not."""
    if not before.runs or not now.runs:
        return None
    limit = margin(tolerance)
    changes = {}
    for name in _ESTIMATORS:
        rate_before, rate_now = (
            statistics.median(run.estimates[name] for run in side.runs) for side in (before, now)
        )
        changes[name] = math.log(rate_now / rate_before)
    directions = {(change > limit) - (change < -limit) for change in changes.values()}
    clock = _change_by_clock(before, now)
    by_clock = clock is not None and abs(clock - changes["time_weighted"]) > _CLOCK_APART
    if clock is not None and by_clock:
        changes["iterations by the clock"] = clock
    if len(directions) == 1 and not by_clock:
        return None
    stalls = [run.stall for side in (now, before) for run in side.runs if run.stall]
    return Disagreement(
        changes={name.replace("_", " "): math.expm1(shift) for name, shift in changes.items()},
        stretch=stalls[0] if stalls else "",
    )


def _change_by_clock(before: LogSide, now: LogSide) -> float | None:
    """Return the logarithm of the change that time stamps say; None if they do not."""
    sides = [[run.iterations_per_s_by_clock for run in side.runs] for side in (before, now)]
    known = [[rate for rate in rates if rate is not None] for rates in sides]
    if known != sides:
        return None
    former, value = (statistics.median(rates) for rates in known)
    return math.log(value / former)


def _notes(before: LogSide, now: LogSide, rate: Comparison) -> Iterator[Finding]:
    for code, texts in (
        ("data-wait", _data_wait(before, now, rate)),
        ("not-reported", _not_reported(before, now)),
        ("same-files", _same_files(before, now)),
    ):
        for text in texts:
            yield Finding(code=code, weight=Weight.NOTE, figures={"text": text})


def _not_reported(before: LogSide, now: LogSide) -> Sequence[str]:
    """Return in words which conditions were not compared, as a side does not report them."""
    silent: dict[str, list[str]] = {}
    for words, value, former in _conditions(before, now):
        if value is None or former is None:
            who = "neither side reports its"
            if value is not former:
                who = f"{before.name if former is None else 'the log'} does not report its"
            silent.setdefault(who, []).append(words)
    return [f"{who} {' and '.join(words)}" for who, words in silent.items()]


def _same_files(before: LogSide, now: LogSide) -> Sequence[str]:
    """Return in words which files are on both sides: a file does not differ from itself."""
    shared = sorted(before.files & now.files)
    if not shared:
        return ()
    if before.files == now.files:
        return ("both sides are the same " + ("file" if len(shared) == 1 else "files"),)
    return (f"{', '.join(shared)} {'is' if len(shared) == 1 else 'are'} on both sides",)


def _data_wait(before: LogSide, now: LogSide, rate: Comparison) -> Sequence[str]:
    """Return in words the part of a slowdown that waiting for data explains."""
    change = rate.change or 0.0
    waits = [
        [run.data_wait_share for run in side.runs if run.data_wait_share is not None]
        for side in (before, now)
    ]
    if change >= 0 or not all(waits) or rate.before is None or rate.now is None:
        return ()
    shares = [statistics.median(side) for side in waits]
    times = [1 / rate.before, 1 / rate.now]
    longer = times[1] - times[0]
    waited = times[1] * shares[1] - times[0] * shares[0]
    if waited < _EXPLAINS * longer:
        return ()
    part = min(1.0, waited / longer)
    return (
        f"waiting for data explains {part:.0%} of it: {percent(shares[1])} of the time, "
        f"was {percent(shares[0])}",
    )
