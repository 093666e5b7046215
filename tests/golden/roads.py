"""The roads to a verdict: what each is given, and what it says.

The one file of the golden test that names functions of the judge. Where these change, it changes:
what a road is given, and what is kept of its verdict, remain as the golden file has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import singledispatch
from typing import Any, Final, Literal

from pytest_dlperf.core.baseline import Baseline, Session
from pytest_dlperf.core.case import Case, Known
from pytest_dlperf.core.codec import encode
from pytest_dlperf.core.errors import CaseError, UsageError
from pytest_dlperf.core.layout import DeviceKind
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.metric import Gate
from pytest_dlperf.core.verdict import (
    TOLERANCE,
    Comparison,
    Judgement,
    Prior,
    Rule,
    Verdict,
)
from pytest_dlperf.judge.budget import cut_short
from pytest_dlperf.judge.evidence.logs import LogRun, LogSide
from pytest_dlperf.judge.evidence.numbers import Numbers
from pytest_dlperf.judge.expected import with_known
from pytest_dlperf.judge.gates import unmoved_by_speed
from pytest_dlperf.judge.leave_one_out import against_level, alarms_in, leave_one_out
from pytest_dlperf.judge.metrics import metrics_of
from pytest_dlperf.judge.screen import more_runs
from pytest_dlperf.judge.stats.priors import LOGS, LOGS_AND_STORED, THROUGHPUT
from pytest_dlperf.judge.two_stages import (
    decided_by_packages,
    decided_by_pairs,
    judgement_without_pairs,
    other_sides,
    same_code_judgement,
)
from pytest_dlperf.judge.verdict import (
    judge,
    judge_logs,
    judge_number_pairs,
    judge_numbers,
    judge_pairs,
    plain_judgement,
)

__all__ = ["LOGS", "LOGS_AND_STORED", "THROUGHPUT", "LogRun", "LogSide", "Numbers"]

#: What is kept of a verdict, in plain JSON types.
Output = Mapping[str, Any]
_BUDGET: Final = "5 min"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """A measurement against stored sessions."""

    case: Case
    measurement: Measurement
    baseline: Baseline | None
    rule: Rule
    #: Whether the budget that cut it short allowed the first look; None if it was not cut short.
    looked: bool | None = None
    #: The day of a case with a known slowdown, ISO 8601; empty: the slowdown is not asked for.
    today: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pairs:
    """Pairs of runs of two arms."""

    case: Case
    now: Measurement
    before: Measurement
    rule: Rule
    varied: tuple[str, ...] = ()
    against: str = "the other arm"
    looked: bool | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Logs:
    """Logs of two trainings."""

    #: Without their files, which are sets.
    before: LogSide
    now: LogSide
    rule: Rule
    prior: Prior
    files_before: tuple[str, ...] = ()
    files_now: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PlainNumbers:
    """Rates without a case: sessions of runs, or pairs of runs."""

    before: Numbers
    now: Numbers
    rule: Rule
    paired: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaveOneOut:
    """The sessions of a level, each against the others; ``aside`` are judged against all."""

    sessions: tuple[Session, ...]
    device: DeviceKind
    rule: Rule
    asked: tuple[Gate, ...] = ()
    aside: tuple[Session, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class TwoStages:
    """Stored sessions, and then pairs with the code, and perhaps with the packages, of before."""

    how: Literal["pairs", "same code", "no pairs", "packages"]
    stored: Stored
    #: None: no file of the code differs.
    code: Pairs | None = None
    packages: Pairs | None = None
    against: str = "1a2b3c4"
    environment: tuple[str, ...] = ()
    unknown: str = ""
    measured_by: str = ""
    #: Which packages differ, and what installs those of before; or why no pair was possible.
    changed: str = ""
    undo: str = ""
    today: str = ""


Input = Stored | Pairs | Logs | PlainNumbers | LeaveOneOut | TwoStages
KINDS: Final[Mapping[str, type[Any]]] = {
    "stored": Stored,
    "pairs": Pairs,
    "logs": Logs,
    "numbers": PlainNumbers,
    "leave one out": LeaveOneOut,
    "two stages": TwoStages,
}


def road_of(given: Input) -> str:
    """Return the name of the road, as tables of verdicts have it."""
    name = next(name for name, kind in KINDS.items() if isinstance(given, kind))
    if isinstance(given, Stored | Pairs) and given.looked is not None:
        return f"{name}, cut short"
    if isinstance(given, Stored) and given.today:
        return f"{name}, known"
    if isinstance(given, PlainNumbers) and given.paired:
        return "pairs of numbers"
    return f"{name}: {given.how}" if isinstance(given, TwoStages) else name


def output_of(given: Input) -> Output:
    """Return what is kept of the verdict on ``given``, or of the error that it raises."""
    try:
        return _output(given)
    except (CaseError, UsageError) as error:
        return {"error": type(error).__name__, "message": str(error)}


@singledispatch
def _output(given: Input) -> Output:
    return _kept(judged(given))


@singledispatch
def judged(given: Input) -> Judgement:
    """Return the judgement on ``given``, as a session shows it."""
    raise TypeError(type(given).__name__)


@judged.register
def _(given: Stored) -> Judgement:
    judgement = _stored(given)
    return _with_slowdown(judgement, given, given.today)


def _stored(given: Stored) -> Judgement:
    return _cut(judge(given.case, given.measurement, given.baseline, given.rule), given)


@judged.register
def _(given: Pairs) -> Judgement:
    judgement = judge_pairs(
        given.case,
        given.now,
        given.before,
        given.rule,
        varied=given.varied,
        against=given.against,
    )
    return _cut(judgement, given)


@judged.register
def _(given: Logs) -> Judgement:
    before = replace(given.before, files=frozenset(given.files_before))
    now = replace(given.now, files=frozenset(given.files_now))
    return judge_logs(before, now, given.rule, prior=given.prior)


@judged.register
def _(given: PlainNumbers) -> Judgement:
    judge_rates = judge_number_pairs if given.paired else judge_numbers
    return judge_rates(given.before, given.now, given.rule)


@judged.register
def _(given: TwoStages) -> Judgement:
    stored = judged(replace(given.stored, today=""))
    if given.how == "same code":
        decision = same_code_judgement(stored, against=given.against)
    elif given.how == "no pairs":
        decision = judgement_without_pairs(stored, given.changed)
    elif given.how == "pairs":
        decision = decided_by_pairs(
            stored,
            _code_judgement(given),
            against=given.against,
            environment=given.environment,
            unknown=given.unknown,
            measured_by=given.measured_by,
        )
    else:
        assert given.packages is not None
        decision = decided_by_packages(
            stored,
            _code_judgement(given),
            judged(given.packages),
            changed=given.changed,
            environment=given.environment,
            undo=given.undo,
        )
    return _with_slowdown(decision, given.stored, given.today)


@_output.register
def _(given: Stored) -> Output:
    case, count = given.case, len(given.measurement.runs)
    judgement = _stored(given)
    sides = other_sides(case, given.measurement, judgement, given.baseline, given.rule)
    return {
        **_kept(_with_slowdown(judgement, given, given.today)),
        "more runs": more_runs(case, judgement, count),
        "pairs with the session of": [session.time for session in sides],
    }


@_output.register
def _(given: Pairs) -> Output:
    judgement = judged(given)
    more = more_runs(given.case, judgement, len(given.now.runs), in_pairs=True)
    return {**_kept(judgement), "more pairs": more}


@_output.register
def _(given: LeaveOneOut) -> Output:
    tolerance = TOLERANCE if given.rule.tolerance is None else given.rule.tolerance
    gated = metrics_of(given.asked, given.device, given.sessions[::-1], tolerance=tolerance)
    each = leave_one_out(given.sessions, gated, given.rule)
    aside = [against_level(session, given.sessions, gated, given.rule) for session in given.aside]
    return {"each": _alarms(each), "aside": _alarms(aside)}


def _alarms(sessions: Sequence[Mapping[str, Comparison]]) -> list[Output]:
    return [
        {
            "alarms": sorted(alarms_in(session)),
            "metrics": {name: _comparison(comparison) for name, comparison in session.items()},
        }
        for session in sessions
    ]


def _code_judgement(given: TwoStages) -> Judgement:
    if given.code is None:
        return plain_judgement(Verdict.PASSED, "no file that ranks import differs")
    return judged(given.code)


def _cut(judgement: Judgement, given: Stored | Pairs) -> Judgement:
    if given.looked is None:
        return judgement
    return cut_short(judgement, _BUDGET, looked=given.looked)


def _with_slowdown(judgement: Judgement, given: Stored, today: str) -> Judgement:
    if not today:
        return judgement
    known: Known | None = given.case.known
    fixed = unmoved_by_speed(given.case, given.measurement)
    return with_known(judgement, known, date.fromisoformat(today), fixed)


def _kept(judgement: Judgement) -> Output:
    return {
        "verdict": str(judgement.verdict),
        "reason": judgement.reason,
        "details": list(judgement.details),
        "known": None if judgement.known is None else str(judgement.known),
        "throughput": _comparison(judgement.throughput),
        "metrics": {
            name: _comparison(comparison) for name, comparison in judgement.metrics.items()
        },
    }


def _comparison(comparison: Comparison) -> Output:
    """Return the fields that are not as a comparison of nothing has them."""
    values, empty = encode(comparison), encode(Comparison())
    return {name: value for name, value in values.items() if value != empty[name]}


#: The functions whose calls the recorder keeps, by module and name, and the inputs they stand for.
ENTRIES: Final[Mapping[tuple[str, str], Callable[..., Input | None]]]


def _logs(before: LogSide, now: LogSide, rule: Rule, *, prior: Prior = LOGS) -> Logs:
    return Logs(
        before=replace(before, files=frozenset()),
        now=replace(now, files=frozenset()),
        rule=rule,
        prior=prior,
        files_before=tuple(sorted(before.files)),
        files_now=tuple(sorted(now.files)),
    )


def _left_out(sessions: Sequence[Session], all_gated: Sequence[Any], rule: Rule) -> Input | None:
    if [metric.name for metric in all_gated] != ["throughput", "speedup", "peak_memory"]:
        return None
    device: DeviceKind = "cpu" if all_gated[0].prior == THROUGHPUT["cpu"] else "gpu"
    return LeaveOneOut(sessions=tuple(sessions), device=device, rule=rule)


def _pairs(
    case: Case,
    now: Measurement,
    before: Measurement,
    rule: Rule,
    *,
    varied: Sequence[str] = (),
    against: str = "the other arm",
) -> Pairs:
    return Pairs(
        case=case, now=now, before=before, rule=rule, varied=tuple(varied), against=against
    )


ENTRIES = {
    ("pytest_dlperf.judge.verdict", "judge"): lambda case, measurement, baseline, rule: Stored(
        case=case, measurement=measurement, baseline=baseline, rule=rule
    ),
    ("pytest_dlperf.judge.verdict", "judge_pairs"): _pairs,
    ("pytest_dlperf.judge.verdict", "judge_logs"): _logs,
    ("pytest_dlperf.judge.verdict", "judge_numbers"): lambda before, now, rule: PlainNumbers(
        before=before, now=now, rule=rule
    ),
    ("pytest_dlperf.judge.verdict", "judge_number_pairs"): lambda before, now, rule: PlainNumbers(
        before=before, now=now, rule=rule, paired=True
    ),
    ("pytest_dlperf.judge.leave_one_out", "leave_one_out"): _left_out,
}
