"""Judges a case against its baseline: reasons not to judge, throughput, then other metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_dlperf.core.baseline import Baseline, Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.measurement import SPEEDUP_UNKNOWN, Measurement
from pytest_dlperf.core.quantity import same_unit
from pytest_dlperf.core.verdict import (
    GOOD,
    MEMORY_TOLERANCE,
    TOLERANCE,
    Comparison,
    Judgement,
    Rule,
    Verdict,
)
from pytest_dlperf.judge import canary, convergence, gates, metrics, refusals, scaling, sentences
from pytest_dlperf.judge.canary import Shift
from pytest_dlperf.judge.compare import compare, is_certainly_slower
from pytest_dlperf.judge.comparisons import (
    Compared,
    compare_all,
)
from pytest_dlperf.judge.screen import looked
from pytest_dlperf.judge.stats import family
from pytest_dlperf.judge.stats.contrast import margin


def judge_by_time(
    case: Case, measurement: Measurement, baseline: Baseline | None, rule: Rule
) -> Judgement:
    """Return the verdict by work over time alone; ``docs/verdicts.md`` explains the rule.

    Raises ``CaseError`` for measured or stored rates that are not positive finite numbers.
    """
    stored = _check(measurement, baseline)
    gates.check(case, measurement, stored)
    differs = refusals.differs(measurement, baseline) if baseline is not None and stored else ""
    if not differs and (reason := convergence.fault(case, measurement, stored)):
        seen = _seen(case, measurement, baseline, rule)
        return _not_judged(Verdict.ERROR, reason, measurement, seen)
    disturbed, unchecked = refusals.disturbed(measurement), refusals.unchecked(measurement)
    # No quiet machine makes other work or other conditions comparable
    if reason := (unchecked or differs or disturbed):
        seen = _seen(case, measurement, baseline, rule)
        refused = _not_judged(Verdict.INCOMPARABLE, reason, measurement, seen)
        if baseline is None or not stored or unchecked or differs:
            return refused
        return with_facts(refused, case, measurement, stored, rule)
    unsteady = refusals.unsteady(case, measurement, rule)
    if baseline is None or not stored:
        if unsteady:
            return _not_judged(Verdict.UNSTEADY, unsteady, measurement)
        return _not_judged(Verdict.NO_BASELINE, refusals.NO_BASELINE, measurement)
    level = replace(baseline, sessions=stored)
    return _judge_against(case, measurement, level, rule, unsteady)


def _check(measurement: Measurement, baseline: Baseline | None) -> tuple[Session, ...]:
    """Return the sessions of the level with runs; raise ``CaseError`` for impossible rates."""
    if not measurement.runs:
        raise CaseError(f"{measurement.case_id}: no valid run, so there is nothing to judge")
    metrics.check_rates(measurement.throughputs, f"{measurement.case_id}, a run")
    parent = f"{measurement.case_id}, {measurement.reference_words}"
    metrics.check_rates(measurement.parent_throughputs, parent)
    sessions = () if baseline is None else baseline.level
    stored = tuple(session for session in sessions if session.runs)
    for session in stored:
        what = f"{measurement.case_id}, the session of {session.time} in the baseline"
        metrics.check_rates((*session.runs, *session.parent_runs), what)
    return stored


def _not_judged(
    verdict: Verdict, reason: str, measurement: Measurement, seen: Comparison | None = None
) -> Judgement:
    """Return a judgement that keeps the change that was ``seen``: it is shown, not judged."""
    known = Comparison(now=measurement.throughput, verdict=verdict)
    if seen is not None:
        known = seen.as_refused(verdict)
    return Judgement(verdict=verdict, reason=reason, throughput=known)


def _seen(
    case: Case, measurement: Measurement, baseline: Baseline | None, rule: Rule
) -> Comparison | None:
    """Return the change of a case that is not judged; None where rates cannot be compared."""
    sessions = () if baseline is None else baseline.level
    stored = tuple(session for session in sessions if session.runs)
    if baseline is None or not stored or not same_unit(measurement.unit, baseline.unit):
        return None
    metric = metrics.throughput(case, measurement, stored)
    spent = looked(case, measurement)
    return compare(metric, TOLERANCE, family.of_throughput(rule), spent)


def _judge_against(
    case: Case, measurement: Measurement, baseline: Baseline, rule: Rule, unsteady: str
) -> Judgement:
    """Return the verdict on a case whose baseline has the same conditions."""
    compared = compare_all(case, measurement, baseline, rule)
    stored = baseline.sessions
    slower_why = scaling.why(
        measurement.runs, [session.scaling for session in stored], case.layout.device
    )
    shift, moved = _machine(case, measurement, stored, compared)
    refused = _refused(measurement, compared, shift if moved else None, unsteady)
    if refused is not None:
        links = moved and refusals.only_links_slower(case, measurement, stored)
        # No machine makes peak memory larger; links that alone became slower are no excuse
        may_fail = {"peak_memory", "speedup"} if links else {"peak_memory"}
        facts = {
            name: one
            for name, one in compared.others.items()
            if name in may_fail and one.verdict is Verdict.REGRESSED
        }
        failed = _with_facts(refused, facts, shift if links else None, slower_why)
        return gates.with_certain(failed, case, measurement, compared.gated)
    throughput = compared.throughput
    reason = sentences.throughput(
        throughput,
        rule,
        measurement.unit,
        slower=is_certainly_slower(compared.evidence, family.of_throughput(rule), compared.spent),
        against=sentences.compared_with(baseline, throughput),
        takes=sentences.what_it_takes(throughput, measurement.runs, case.protocol),
    )
    if shift is not None:
        reason += refusals.machine_explains_nothing(shift)
    if "speedup" not in compared.others:
        reason += _unjudged_speedup(measurement, stored)
    judged = Judgement(
        verdict=throughput.verdict or Verdict.INCONCLUSIVE,
        reason=reason,
        throughput=throughput,
        metrics=compared.others,
    )
    parent = metrics.parent(case, measurement, stored)
    judged = _with_metrics(judged, parent, slower_why, measurement.reference_words)
    return gates.with_gates(judged, case, measurement, compared.gated)


def _unjudged_speedup(measurement: Measurement, stored: Sequence[Session]) -> str:
    """Return why a speedup that is stored was not judged; empty if the case asks for none."""
    over = {s.reference for s in stored if metrics.stored_speedup(s) is not None}
    if not over:
        return ""
    if measurement.parent_throughputs:
        before = " or ".join(sorted("one device" if one is None else str(one) for one in over))
        return sentences.speedup_not_judged(measurement.reference_words, before)
    is_unknown = any(problem.code == SPEEDUP_UNKNOWN for problem in measurement.problems)
    return sentences.speedup_not_judged("", "") if is_unknown else ""


def _machine(
    case: Case,
    measurement: Measurement,
    stored: Sequence[Session],
    compared: Compared,
) -> tuple[Shift | None, bool]:
    """Return how the machine moved, and whether that may be all of the throughput's change.

    The shift is the largest that may be all of it, else the largest; None if it did not move.
    """
    change, tolerance = compared.evidence.shift, margin(compared.throughput.tolerance or 0.0)
    shifts = refusals.canary_shifts(case, measurement, stored)
    if shifts:
        shifts.sort(key=lambda one: not one.explains(change, tolerance))
        return shifts[0], shifts[0].explains(change, tolerance)
    if compared.throughput.verdict is not Verdict.REGRESSED:
        return None, False
    # Too noisy to refuse every verdict, but it may be all that an alarm saw.
    shift = canary.slower_perhaps(measurement, stored, case.layout.device)
    if shift is None or not shift.explains(change, tolerance):
        return None, False
    return shift, True


def _refused(
    measurement: Measurement, compared: Compared, shift: Shift | None, unsteady: str
) -> Judgement | None:
    """Return the judgement that something else than the case forbids to judge; None if nothing.

    ``shift`` is that of a machine that may be all of the throughput's change.
    """
    found = compared.throughput
    if shift is not None:
        reason = refusals.machine_moved(shift)
        return _not_judged(Verdict.INCOMPARABLE, reason, measurement, found)
    if unsteady:
        return _not_judged(Verdict.UNSTEADY, unsteady, measurement, found)
    return None


def with_facts(
    refused: Judgement,
    case: Case,
    measurement: Measurement,
    stored: Sequence[Session],
    rule: Rule,
) -> Judgement:
    """Fail a case whose rate is not judged for what is certain all the same.

    That is a peak memory that grew, and gated metrics that no other process moves.
    """
    spent = looked(case, measurement)
    facts = {}
    if (memory := metrics.peak_memory(case, measurement, stored)) is not None:
        memory_rule = family.of_memory(rule, len(case.metrics))
        found = compare(memory, MEMORY_TOLERANCE, memory_rule, spent)
        if found.verdict is Verdict.REGRESSED:
            facts["peak_memory"] = found
    failed = _with_facts(refused, facts, None, "")
    asked = gates.compared(case, measurement, stored, rule, spent)
    return gates.with_certain(failed, case, measurement, asked)


def _with_facts(
    refused: Judgement, facts: Mapping[str, Comparison], links: Shift | None, why: str
) -> Judgement:
    """Fail a refused case for ``facts``: metrics that regressed all the same.

    Neither a machine nor drifting steps make the peak memory grow. ``links`` is the shift of a
    machine whose links alone became slower: with the library that drives them, they are what a
    speedup measures.
    """
    words = []
    if memory := facts.get("peak_memory"):
        words.append(sentences.memory(memory))
    if speedup := facts.get("speedup"):
        words.append(sentences.speedup(speedup, why))
    if not words:
        return refused
    last = f"throughput: {refused.reason}" if links is None else refusals.links_slower(links)
    reason = "; ".join([*words, last])
    return replace(refused, verdict=Verdict.REGRESSED, reason=reason, metrics=facts)


def _with_metrics(
    judged: Judgement, parent: metrics.MetricValues | None, why: str, reference: str
) -> Judgement:
    """Fail the case for a metric that is certainly worse, or say why it does not fail.

    ``why`` is the reason of a lower speedup that the ranks show, ``reference`` what it is over.
    """
    memory, speedup = judged.metrics.get("peak_memory"), judged.metrics.get("speedup")
    if judged.verdict is Verdict.REGRESSED:
        if speedup is None or speedup.verdict is not Verdict.REGRESSED:
            return judged
        reason = f"{judged.reason}; {sentences.speedup_fell(speedup, why)}"
        return replace(judged, reason=reason)
    drifted = judged.metrics.get("anchor")
    if (
        drifted is not None
        and drifted.verdict is Verdict.REGRESSED
        and judged.verdict is not Verdict.IMPROVED
    ):
        reason = f"{sentences.drifted(drifted)}; {judged.reason}"
        return replace(judged, verdict=Verdict.REGRESSED, reason=reason)
    if memory is not None and memory.verdict is Verdict.REGRESSED:
        reason = f"{sentences.memory(memory)}; throughput: {judged.reason}"
        return replace(judged, verdict=Verdict.REGRESSED, reason=reason)
    if speedup is None or speedup.verdict is not Verdict.REGRESSED:
        return judged
    if judged.verdict not in GOOD:
        return replace(judged, verdict=Verdict.REGRESSED, reason=sentences.speedup(speedup, why))
    change = None if parent is None else parent.now.amount / parent.before - 1
    reason = f"{judged.reason}; {sentences.speedup_excused(speedup, change, reference)}"
    return replace(judged, reason=reason)
