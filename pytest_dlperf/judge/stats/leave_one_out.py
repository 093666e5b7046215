"""Judges each stored session against the others of its level, to count false alarms."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Final

from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.findings import Rate
from pytest_dlperf.core.layout import DeviceKind
from pytest_dlperf.core.metric import Better, Figure, Gate, StoredFigures
from pytest_dlperf.core.metrics import gate_of
from pytest_dlperf.core.verdict import (
    GOOD,
    MEMORY_TOLERANCE,
    TOLERANCE,
    Comparison,
    Prior,
    Rule,
    Verdict,
)
from pytest_dlperf.judge import gates, metrics
from pytest_dlperf.judge.compare import comparison_of
from pytest_dlperf.judge.screen import ONE_LOOK
from pytest_dlperf.judge.stats import family, priors
from pytest_dlperf.judge.stats.contrast import SessionValue, margin
from pytest_dlperf.judge.stats.stored import expected_contrast

#: The longest time from one case to the next within a session of pytest.
_LONGEST_CASE: Final = timedelta(hours=2)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stamp:
    """When and where a session of one case was measured."""

    case: str
    #: ISO 8601; UTC where no zone is named.
    time: str
    #: What is equal throughout a session of pytest: machine class, node, commit.
    place: tuple[str, ...]

    @property
    def at(self) -> datetime:
        """The time with its zone, so that times can be compared."""
        # Python 3.10 does not read the Z
        found = datetime.fromisoformat(self.time.replace("Z", "+00:00"))
        return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def suite_sessions(stamps: Sequence[Stamp]) -> tuple[int, ...]:
    """Return for each stamp the number of its session of the suite, from 0 on.

    A session goes on while place and commit stay the same, each case ends within two hours of
    the one before, and no case comes twice: pytest runs each once.
    """
    numbers = [0] * len(stamps)
    order = sorted(range(len(stamps)), key=lambda i: (stamps[i].place, stamps[i].at))
    number, before, cases = -1, None, set[str]()
    for i in order:
        stamp = stamps[i]
        if (
            before is None
            or stamp.place != before.place
            or stamp.at - before.at > _LONGEST_CASE
            or stamp.case in cases
        ):
            number, cases = number + 1, set()
        cases.add(stamp.case)
        numbers[i], before = number, stamp
    return tuple(numbers)


#: With fewer sessions each would be compared with a single other one, which is provisional.
FEWEST: Final = 3
#: The probability that an interval of an observed rate leaves out at either end.
_TAIL: Final = 0.025


@dataclass(frozen=True, kw_only=True, slots=True)
class Gated:
    """One gated metric, as it is read from a stored session."""

    name: str
    value_of: Callable[[Session], SessionValue | None]
    prior: Prior
    #: As in ``Metric``.
    sign: int = 1
    #: Of a metric that is not the throughput.
    tolerance: float = TOLERANCE
    #: Of a count, whose values have the values of the runs: any change for the worse alarms.
    is_count: bool = False
    #: Number of metrics that the marker gates: alpha is split over them too.
    asked: int = 0

    def tolerance_by(self, rule: Rule) -> float:
        """Return the change for the worse up to which it passes; that of ``rule`` is given."""
        if not self.decides:
            return self.tolerance
        return TOLERANCE if rule.tolerance is None else rule.tolerance

    def rule_by(self, rule: Rule) -> Rule:
        """Return the rule of this metric: its part of a case's error rate."""
        if self.decides:
            return family.of_throughput(rule)
        of_metric = family.of_memory if self.name == "peak_memory" else family.of_other
        return of_metric(rule, self.asked)

    def against(self, session: Session, others: Sequence[Session]) -> metrics.MetricValues | None:
        """Return the values of ``session`` and of those of ``others`` that it is compared with.

        None where a side has none.
        """
        now = self.value_of(session)
        before = [one for other in others if (one := self.value_of(other)) is not None]
        if now is None or not before:
            return None
        if self.decides:
            return metrics.of_stored_session(session, others, self.prior)
        return metrics.MetricValues(
            now=now, stored=tuple(before), prior=self.prior, sign=self.sign
        )

    @property
    def decides(self) -> bool:
        """Whether it is the metric that a given tolerance is for."""
        return self.name == "throughput"


def gated_metrics(device: DeviceKind, asked: int = 0) -> tuple[Gated, ...]:
    """Return the metrics that fail every case; ``asked``: how many more its marker gates."""
    prior = priors.THROUGHPUT[device]
    return (
        Gated(name="throughput", value_of=metrics.stored_throughput, prior=prior),
        Gated(name="speedup", value_of=metrics.stored_speedup, prior=prior, asked=asked),
        Gated(
            name="peak_memory",
            value_of=metrics.stored_memory,
            prior=priors.MEMORY[device],
            sign=-1,
            tolerance=MEMORY_TOLERANCE,
            asked=asked,
        ),
    )


def asked_metrics(
    asked: Sequence[Gate], sessions: Sequence[Session], device: DeviceKind
) -> tuple[Gated, ...]:
    """Return the metrics that the marker of a case gates, as ``sessions`` have them."""
    found = []
    for gate in map(gate_of, asked):
        known = [one.metrics[gate.name] for one in sessions if gate.name in one.metrics]
        stored = known[-1] if known else StoredFigures(runs=())
        is_count = gate.is_count is True
        sign = 1 if stored.better == "higher" else -1
        found.append(
            Gated(
                name=gate.name,
                value_of=functools.partial(_asked_value, gate.name, sign, is_count),
                prior=priors.of_figure(stored.unit, device),
                sign=sign,
                tolerance=0.0 if is_count else gates.tolerance_of(gate, stored.unit),
                is_count=is_count,
                asked=len(asked),
            )
        )
    return tuple(found)


def _asked_value(name: str, sign: int, is_count: bool, session: Session) -> SessionValue | None:
    """Return the value of a metric of a stored session; None where it has none to compare."""
    runs = session.metrics[name].runs if name in session.metrics else ()
    if is_count and runs:
        worst = min(runs) if sign > 0 else max(runs)
        return SessionValue(amount=worst, value=worst, samples=(runs,))
    return metrics.session_value(runs, sign=sign) if runs and min(runs) > 0 else None


def leave_one_out(
    sessions: Sequence[Session], all_gated: Sequence[Gated], rule: Rule
) -> tuple[Mapping[str, Comparison], ...]:
    """Return the verdicts on each session's metrics, judged against the other sessions.

    The sessions are of one level. A metric that fewer than three of them have is not judged.
    """
    found: list[dict[str, Comparison]] = [{} for _ in sessions]
    if not sessions:
        return ()
    # A speedup over another layout is no other value of the same metric
    of = sessions[-1].reference
    sessions = [
        s if s.reference == of else replace(s, speedup=None, parent_runs=()) for s in sessions
    ]
    for gated in all_gated:
        known = [i for i, s in enumerate(sessions) if gated.value_of(s) is not None]
        if len(known) < FEWEST:
            continue
        for i in known:
            others = [sessions[j] for j in known if j != i]
            if (values := gated.against(sessions[i], others)) is not None:
                found[i][gated.name] = _compared(values, gated, rule)
    return tuple(found)


def against_level(
    session: Session, level: Sequence[Session], all_gated: Sequence[Gated], rule: Rule
) -> Mapping[str, Comparison]:
    """Return the verdicts on a session that was set aside, against the sessions of its level."""
    found: dict[str, Comparison] = {}
    for gated in all_gated:
        values = gated.against(session, level)
        if values is None:
            continue
        compared = _compared(values, gated, rule)
        if not gated.is_count:
            before = statistics.fmean(one.value for one in values.stored)
            change = math.expm1(gated.sign * (values.now.value - before))
            compared = replace(compared, change=change)
        found[gated.name] = compared
    return found


def _compared(values: metrics.MetricValues, gated: Gated, rule: Rule) -> Comparison:
    now, stored = values.now, values.stored
    if gated.is_count:
        before = [value for one in stored for value in one.samples[0]]
        better: Better = "higher" if gated.sign > 0 else "lower"
        return gates.count(now.samples[0], before, Figure(value=now.amount, better=better))
    return comparison_of(
        values.contrast(),
        gated.tolerance_by(rule),
        gated.rule_by(rule),
        ONE_LOOK,
        sign=gated.sign,
    )


def of_level(level: Sequence[Session], gated: Gated) -> metrics.MetricValues | None:
    """Return the values of a level, where ``now`` is a further session like its last one.

    None where no session of it has the metric.
    """
    known = [one for session in level if (one := gated.value_of(session)) is not None]
    if not known:
        return None
    if gated.decides:
        values, prior = metrics.stored_throughputs(level), gated.prior
    else:
        values, prior = known, gated.prior
    return metrics.MetricValues(now=values[-1], stored=tuple(values), prior=prior, sign=gated.sign)


def can_be_certified(values: metrics.MetricValues, gated: Gated, rule: Rule) -> bool:
    """Whether a further session like ``values.now`` is certified, if it is at its level."""
    if gated.is_count:
        return True
    expected = expected_contrast(values.now.share, values.stored, values.prior)
    margin_log = margin(gated.tolerance_by(rule), gated.sign)
    return expected.certified(rule.alpha * ONE_LOOK.certify) > -margin_log


def alarms_in(judged: Mapping[str, Comparison]) -> frozenset[str]:
    """Return the metrics by which gate mode would have failed the session.

    As in ``verdict.py``, a lower speedup fails no case whose throughput is certified.
    """
    throughput = judged["throughput"].verdict if "throughput" in judged else None
    worse = {name for name, one in judged.items() if one.verdict is Verdict.REGRESSED}
    return frozenset(worse - {"speedup"} if throughput in GOOD else worse)


def observed_rate(alarms: int, tries: int) -> Rate:
    """Return a rate with its Clopper-Pearson interval of 95 %."""
    from scipy.stats import beta

    if not tries:
        return Rate(alarms=alarms, tries=tries, rate=None, interval=None)
    low = float(beta.ppf(_TAIL, alarms, tries - alarms + 1)) if alarms else 0.0
    high = float(beta.ppf(1 - _TAIL, alarms + 1, tries - alarms)) if alarms < tries else 1.0
    return Rate(alarms=alarms, tries=tries, rate=alarms / tries, interval=(low, high))
