"""False alarms of the gate, estimated by judging each stored session against the others."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_dlperf.cli.declared_cases import Declared, marker_of
from pytest_dlperf.core.baseline import (
    OBSERVED_KNOWN,
    OBSERVED_REGRESSED,
    Baseline,
    Session,
    level_of,
)
from pytest_dlperf.core.command_results import Alarm, Caseless, Checked, CheckedCase, CheckedMetric
from pytest_dlperf.core.id_words import CaseId
from pytest_dlperf.core.metric import Gate
from pytest_dlperf.core.metrics import METRICS
from pytest_dlperf.core.verdict import GOOD, TOLERANCE, Comparison, Rule, Verdict
from pytest_dlperf.judge.leave_one_out import (
    FEWEST,
    Stamp,
    against_level,
    alarms_in,
    can_be_certified,
    leave_one_out,
    observed_rate,
    sides_of_level,
    suite_sessions,
)
from pytest_dlperf.judge.metrics import THROUGHPUT, CaseMetric, metrics_of
from pytest_dlperf.judge.stats.family import family_size
from pytest_dlperf.store.baseline.store import BaselineStore


@dataclass(frozen=True, kw_only=True, slots=True)
class _Judged:
    """One stored session, judged against the others of its level."""

    baseline: Baseline
    session: Session
    metrics: Mapping[str, Comparison]
    #: Whether only observe mode called it, when it was measured.
    only_then: bool = False

    @property
    def stamp(self) -> Stamp:
        place = (self.baseline.machine_class, self.session.node, self.session.commit)
        return Stamp(case=self.baseline.case_id, time=self.session.time, place=place)


def check_baselines(
    store: BaselineStore,
    rule: Rule,
    *,
    family: int | None,
    declared: Mapping[str, Declared] | None,
    without_case: Sequence[Caseless] | None,
) -> Checked:
    """Judge every stored session of every measured baseline against the others of its level.

    ``family`` is how many comparisons alpha is split over; None: those of the machine class.
    ``declared`` are the cases of the tests with what their markers say; None: not known.
    Raises ``BaselineError`` for a file that cannot be read, and names it.
    """
    measured = [e.baseline for e in store.all() if e.baseline.source.kind == "measured"]
    rules = _rules(measured, rule, family, declared or {})
    # Another rule than the gate's own may call what observe mode did not, and the other way round
    is_own_rule = rule == Rule() and family is None
    judged: list[_Judged] = []
    cases: list[CheckedCase] = []
    for baseline in measured:
        case_rule = rules[baseline.case_id, baseline.machine_class]
        checked = list(_judged(baseline, case_rule, is_own_rule=is_own_rule))
        judged += checked
        if checked:
            cases.append(_case(baseline, checked, case_rule))
    sessions = _suite_sessions(judged)
    suites = observed_rate(sum(sessions.values()), len(sessions))
    return Checked(
        alpha=rule.alpha,
        baselines=len(measured),
        too_few_sessions=len(measured) - len(cases),
        comparisons=observed_rate(
            sum(len(alarms_in(session.metrics)) for session in judged),
            sum(len(session.metrics) for session in judged),
        ),
        suite_sessions=suites,
        above_alpha=suites.interval is not None and suites.interval[0] > rule.alpha,
        cases=tuple(cases),
        without_case=None if without_case is None else tuple(without_case),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _CaseRule:
    """The rule of one case, and where its tolerance comes from."""

    rule: Rule
    tolerance_from: str
    is_marker_known: bool
    #: What its marker gates; where that is not known, the built-in metrics that are stored, which
    #: only gated ones are.
    gates: tuple[Gate, ...] = ()

    def metrics(self, baseline: Baseline) -> tuple[CaseMetric, ...]:
        """Return all metrics that the case is compared by."""
        device = CaseId.parse(baseline.case_id).layout.device
        tolerance = TOLERANCE if self.rule.tolerance is None else self.rule.tolerance
        newest_first = baseline.level[::-1]
        return metrics_of(self.gates, device, newest_first, tolerance=tolerance)


def _rule_of_case(baseline: Baseline, rule: Rule, declared: Mapping[str, Declared]) -> _CaseRule:
    """Return the rule with the tolerance that somebody set, as ``judge.verdict`` takes it."""
    try:
        marker, is_known = marker_of(baseline.case_id, declared), True
    except LookupError:
        stored = sorted({name for session in baseline.level for name in session.metrics})
        marker = Declared(gates=tuple(Gate(name=name) for name in stored if name in METRICS))
        is_known = False
    given = {
        "command-line": rule.tolerance,
        "marker": marker.tolerance,
        "baseline": baseline.tolerance,
        "default": TOLERANCE,
    }
    source = next(name for name, value in given.items() if value is not None)
    return _CaseRule(
        rule=replace(rule, tolerance=given[source]),
        tolerance_from=source,
        is_marker_known=is_known,
        gates=marker.gates,
    )


def _rules(
    baselines: Iterable[Baseline],
    rule: Rule,
    family: int | None,
    declared: Mapping[str, Declared],
) -> Mapping[tuple[str, str], _CaseRule]:
    """Return the rule of each baseline, as a session of pytest would have it."""
    by_class: defaultdict[str, list[Baseline]] = defaultdict(list)
    for baseline in baselines:
        by_class[baseline.machine_class].append(baseline)
    rules = {}
    for machine_class, members in by_class.items():
        of_class = replace(rule, family=family or family_size(members))
        for baseline in members:
            rules[baseline.case_id, machine_class] = _rule_of_case(baseline, of_class, declared)
    return rules


def _judged(baseline: Baseline, case_rule: _CaseRule, *, is_own_rule: bool) -> Iterable[_Judged]:
    """Yield the sessions of the levels that have enough of them, and those set aside."""
    gated, rule = case_rule.metrics(baseline), case_rule.rule
    for sessions in (*(level.sessions for level in baseline.history), baseline.sessions):
        level = level_of(sessions)
        if len(level) >= FEWEST:
            for session, metrics in zip(level, leave_one_out(level, gated, rule), strict=True):
                yield _Judged(baseline=baseline, session=session, metrics=metrics)
        for session in sessions:
            if not session.is_set_aside or session.reason == OBSERVED_KNOWN:
                continue
            metrics = against_level(session, level, gated, rule)
            called = is_own_rule and session.reason == OBSERVED_REGRESSED
            if only_then := called and not alarms_in(metrics):
                slower = replace(metrics["throughput"], verdict=Verdict.REGRESSED)
                metrics = {**metrics, "throughput": slower}
            yield _Judged(baseline=baseline, session=session, metrics=metrics, only_then=only_then)


def _suite_sessions(judged: Sequence[_Judged]) -> Mapping[int, bool]:
    """Return whether each session of the suite, in which anything was judged, had an alarm."""
    alarms: dict[int, bool] = {}
    numbers = suite_sessions([session.stamp for session in judged])
    for number, session in zip(numbers, judged, strict=True):
        if session.metrics:
            alarms[number] = alarms.get(number, False) or bool(alarms_in(session.metrics))
    return alarms


def _tolerance_from(metric: CaseMetric, case_rule: _CaseRule) -> str:
    if metric.name == THROUGHPUT:
        return case_rule.tolerance_from
    given = {gate.name for gate in case_rule.gates if gate.tolerance is not None or gate.is_count}
    return "marker" if metric.name in given else "default"


def _case(baseline: Baseline, judged: Sequence[_Judged], case_rule: _CaseRule) -> CheckedCase:
    rule = case_rule.rule
    checked = {}
    for metric in case_rule.metrics(baseline):
        compared = [
            (session, session.metrics[metric.name])
            for session in judged
            if metric.name in session.metrics
        ]
        values = sides_of_level(baseline.level, metric)
        if not compared or values is None:
            continue
        visible = [comparison.sees for _, comparison in compared if comparison.sees is not None]
        checked[metric.name] = CheckedMetric(
            judged=len(compared),
            certified=sum(comparison.verdict in GOOD for _, comparison in compared),
            alarms=tuple(
                Alarm(
                    time=session.session.time,
                    commit=session.session.commit,
                    node=session.session.node,
                    change=comparison.change or 0.0,
                    only_then=session.only_then,
                )
                for session, comparison in compared
                if metric.name in alarms_in(session.metrics)
            ),
            sees=statistics.median(visible) if visible else None,
            tolerance=metric.tolerance,
            tolerance_from=_tolerance_from(metric, case_rule),
            can_be_certified=can_be_certified(values, metric, rule),
        )
    return CheckedCase(
        case_id=baseline.case_id,
        suite=baseline.suite,
        machine_class=baseline.machine_class,
        sessions=len(baseline.sessions) + sum(len(level.sessions) for level in baseline.history),
        family=rule.family,
        is_marker_known=case_rule.is_marker_known,
        metrics=checked,
    )
