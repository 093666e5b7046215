"""Judges each stored session against the others of its level, to count false alarms."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from pytest_dlperf.core.baseline import Session, instant
from pytest_dlperf.core.command_results import Rate
from pytest_dlperf.core.verdict import Comparison, Rule, Verdict
from pytest_dlperf.judge.compare import comparison_of
from pytest_dlperf.judge.evidence import Evidence, Kind
from pytest_dlperf.judge.findings import findings_in
from pytest_dlperf.judge.metrics import CaseMetric, with_reference_of
from pytest_dlperf.judge.screen import ONE_LOOK
from pytest_dlperf.judge.sides import Sides
from pytest_dlperf.judge.stats.contrast import margin
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
    def measured_at(self) -> datetime:
        """The time with its zone, so that times can be compared."""
        return instant(self.time)


def suite_sessions(stamps: Sequence[Stamp]) -> tuple[int, ...]:
    """Return for each stamp the number of its session of the suite, from 0 on.

    A session goes on while place and commit stay the same, each case ends within two hours of
    the one before, and no case comes twice: pytest runs each once.
    """
    numbers = [0] * len(stamps)
    order = sorted(range(len(stamps)), key=lambda i: (stamps[i].place, stamps[i].measured_at))
    number, before, cases = -1, None, set[str]()
    for i in order:
        stamp = stamps[i]
        if (
            before is None
            or stamp.place != before.place
            or stamp.measured_at - before.measured_at > _LONGEST_CASE
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


def leave_one_out(
    sessions: Sequence[Session], metrics: Sequence[CaseMetric], rule: Rule
) -> tuple[Mapping[str, Comparison], ...]:
    """Return the verdicts on each session's metrics, judged against the other sessions.

    The sessions are of one level. A metric that fewer than three of them have is not judged.
    """
    if not sessions:
        return ()
    compared: list[dict[str, Comparison]] = [{} for _ in sessions]
    sessions = with_reference_of(sessions[-1], sessions)
    for metric in metrics:
        indexes = [i for i, session in enumerate(sessions) if metric.value_in(session) is not None]
        if len(indexes) < FEWEST:
            continue
        for i in indexes:
            sides = metric.sides(sessions[i], [sessions[j] for j in indexes if j != i])
            if sides is not None:
                compared[i][metric.name] = _compared(sides, metric, rule)
    return tuple(compared)


def against_level(
    session: Session, level: Sequence[Session], metrics: Sequence[CaseMetric], rule: Rule
) -> Mapping[str, Comparison]:
    """Return the verdicts on a session that was set aside, against the sessions of its level."""
    compared: dict[str, Comparison] = {}
    for metric in metrics:
        sides = metric.sides(session, level)
        if sides is None:
            continue
        comparison = _compared(sides, metric, rule)
        if not metric.is_count:
            before = statistics.fmean(value.value for value in sides.stored)
            change = math.expm1(metric.sign * (sides.now.value - before))
            comparison = replace(comparison, change=change)
        compared[metric.name] = comparison
    return compared


def _compared(sides: Sides, metric: CaseMetric, rule: Rule) -> Comparison:
    """Return the comparison at one look, without the values themselves."""
    if metric.is_count:
        before = [count for value in sides.stored for count in value.samples[0]]
        return metric.counted(sides.now.samples[0], before)
    contrast = sides.contrast()
    return comparison_of(contrast, metric.tolerance, metric.rule(rule), ONE_LOOK, sign=metric.sign)


def sides_of_level(level: Sequence[Session], metric: CaseMetric) -> Sides | None:
    """Return the values of a level, where ``now`` is a further session like its last one.

    None where no session of it has the metric.
    """
    known = [session for session in level if metric.value_in(session) is not None]
    return metric.sides(known[-1], known) if known else None


def can_be_certified(sides: Sides, metric: CaseMetric, rule: Rule) -> bool:
    """Return whether a further session like ``sides.now`` is certified, if it is at its level."""
    if metric.is_count:
        return True
    expected = expected_contrast(sides.now.share, sides.stored, sides.prior)
    margin_log = margin(metric.tolerance, metric.sign)
    return expected.certified(rule.alpha * ONE_LOOK.certify) > -margin_log


def alarms_in(compared: Mapping[str, Comparison]) -> frozenset[str]:
    """Return the metrics by which gate mode would have failed the session.

    Those that got worse, without those that the checks excuse.
    """
    evidence = Evidence(
        kind=Kind.SESSIONS,
        rule=Rule(),
        unit="",
        throughput=None,
        against="",
        comparisons=compared,
    )
    excused = {finding.metric for finding in findings_in(evidence) if finding.code == "excused"}
    worse = {
        name for name, comparison in compared.items() if comparison.verdict is Verdict.REGRESSED
    }
    return frozenset(worse - excused)


def observed_rate(alarms: int, tries: int) -> Rate:
    """Return a rate with its Clopper-Pearson interval of 95 %."""
    from scipy.stats import beta

    if not tries:
        return Rate(alarms=alarms, tries=tries, rate=None, interval=None)
    low = float(beta.ppf(_TAIL, alarms, tries - alarms + 1)) if alarms else 0.0
    high = float(beta.ppf(1 - _TAIL, alarms + 1, tries - alarms)) if alarms < tries else 1.0
    return Rate(alarms=alarms, tries=tries, rate=alarms / tries, interval=(low, high))
