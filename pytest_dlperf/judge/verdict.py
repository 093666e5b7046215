"""Judges a case against its baseline: reasons not to judge, throughput, then other metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_dlperf.core.baseline import Baseline, Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.measurement import SPEEDUP_UNKNOWN, Measurement
from pytest_dlperf.core.quantity import same_unit
from pytest_dlperf.core.verdict import GOOD, Comparison, Judgement, Rule, Verdict
from pytest_dlperf.judge import canary, convergence, gates, metrics, refusals, scaling, sentences
from pytest_dlperf.judge.canary import Shift
from pytest_dlperf.judge.compare import compare, is_certainly_slower
from pytest_dlperf.judge.comparisons import (
    Compared,
    capped,
    comparable_still,
    compare_all,
    given_tolerance,
    without_speeds,
)
from pytest_dlperf.judge.readings import (
    Doubt,
    all_certified,
    all_slower,
    is_slower_as_measured,
    slower_beside_others,
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
    if reason := (disturbed or unchecked or differs):
        seen = _seen(case, measurement, baseline, rule)
        refused = _not_judged(Verdict.INCOMPARABLE, reason, measurement, seen)
        if baseline is None or not stored or unchecked or differs:
            return refused
        failed = with_facts(refused, case, measurement, stored, rule)
        if failed.verdict is Verdict.REGRESSED:
            return failed
        level = replace(baseline, sessions=stored)
        return _slower_beside_others(case, measurement, level, rule) or failed
    if not stored or metrics.throughput(case, measurement, stored, rule).machine is not None:
        measurement = refusals.without_drift_of_machine(measurement)
    unsteady = refusals.unsteady(case, measurement, rule)
    if baseline is None or not stored:
        if unsteady:
            return _not_judged(Verdict.UNSTEADY, unsteady, measurement)
        return _not_judged(Verdict.NO_BASELINE, refusals.NO_BASELINE, measurement)
    level = replace(baseline, sessions=stored)
    judged = _judge_against(case, measurement, level, rule, unsteady)
    if judged.verdict in GOOD or baseline.source.kind != "measured":
        return judged
    why_raw = metrics.why_speed_is_left_in(measurement, stored)
    return replace(judged, reason=f"{judged.reason}; {why_raw}") if why_raw else judged


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
    metric = metrics.throughput(case, measurement, stored, rule)
    spent = looked(case, measurement, rule)
    return compare(metric, rule.tolerance_min, family.of_throughput(rule), spent)


def _slower_beside_others(
    case: Case, measurement: Measurement, baseline: Baseline, rule: Rule
) -> Judgement | None:
    """Return the judgement on a slowdown that the programs beside it do not explain, or None.

    By all runs: those that did not count were repeated because others disturbed them.
    """
    runs = (*measurement.runs, *measurement.disturbed_runs)
    whole = replace(measurement, runs=runs, disturbed_runs=())
    shifts = refusals.canary_shifts(case, whole, baseline.sessions)
    doubt = refusals.doubt(case, whole, rule, shifts)
    seen = _seen(case, whole, baseline, rule)
    if seen is None or not slower_beside_others(case, whole, baseline, rule, doubt):
        return None
    found = replace(seen, verdict=Verdict.REGRESSED)
    reason = sentences.slower_beside_others(
        found,
        rule,
        measurement.unit,
        sentences.compared_with(baseline, found),
        refusals.disturbers(measurement),
    )
    return Judgement(verdict=Verdict.REGRESSED, reason=reason, throughput=found)


def _judge_against(
    case: Case, measurement: Measurement, baseline: Baseline, rule: Rule, unsteady: str
) -> Judgement:
    """Return the verdict on a case whose baseline has the same conditions."""
    compared = whole = compare_all(case, measurement, baseline, rule)
    stored, others = baseline.sessions, compared.others
    slower_why = scaling.why(
        measurement.runs, [session.scaling for session in stored], case.layout.device
    )
    shifts, moved = _machine(case, measurement, stored, compared)
    taken_out = compared.rates.machine is not None
    if taken_out and shifts:
        # What the machine's speed was not taken out of is as doubtful as ever
        compared = without_speeds(compared, case, measurement)
        others = compared.others
    doubt = refusals.doubt(case, measurement, rule, shifts if moved and not taken_out else [])
    if _others_forbid_pass(case, measurement, compared):
        doubt = replace(doubt, forbids_pass=True)
    refused = _refused(measurement, compared, doubt, unsteady, rule)
    agreed = refused and _agreed(case, measurement, baseline, rule, doubt, compared.throughput)
    given = None if compared.is_learnt else compared.tolerance
    is_excused = compared.throughput.verdict in GOOD and is_slower_as_measured(
        compared.rates, rule, compared.spent, given
    )
    if is_excused:
        reason, agreed = refusals.slower_as_measured(compared.throughput), None
        reason += "; its speedup is not judged either" if "speedup" in whole.others else ""
        rates = compared.rates.as_measured or compared.rates
        seen = compare(rates, rule.tolerance_min, family.of_throughput(rule), compared.spent)
        refused = _not_judged(Verdict.INCOMPARABLE, reason, measurement, seen)
    if refused is not None and agreed is None:
        links = moved and refusals.only_links_slower(case, measurement, stored)
        in_doubt = doubt.shift is not None or bool(unsteady)
        may_fail = comparable_still(
            compared, links=bool(links), in_doubt=in_doubt, is_excused=is_excused
        )
        facts = {
            name: one
            for name, one in others.items()
            if name in may_fail and one.verdict is Verdict.REGRESSED
        }
        failed = _with_facts(refused, facts, shifts[0] if links else None, slower_why)
        return gates.with_certain(failed, case, measurement, compared.gated)
    throughput = replace(compared.throughput, verdict=agreed or _verdict(compared.throughput))
    reason = sentences.throughput(
        throughput,
        rule,
        measurement.unit,
        slower=is_certainly_slower(compared.evidence, family.of_throughput(rule), compared.spent),
        against=sentences.compared_with(baseline, throughput),
        takes=sentences.what_it_takes(throughput, measurement.runs, case.protocol),
    )
    is_said = taken_out and throughput.verdict in GOOD
    shift = shifts[0] if shifts and not is_said else None
    reason += _in_spite_of(shift, doubt, unsteady, throughput)
    if compared.rates.new_node:
        reason += sentences.new_node(compared.rates.new_node)
    if "speedup" not in whole.others:
        reason += _unjudged_speedup(measurement, stored)
    judged = Judgement(
        verdict=throughput.verdict or Verdict.INCONCLUSIVE,
        reason=reason,
        throughput=throughput,
        metrics=others,
        by_readings=agreed is Verdict.PASSED,
    )
    parent = metrics.parent(case, measurement, stored, rule)
    judged = _with_metrics(judged, parent, slower_why, measurement.reference_words)
    if taken_out and shifts:
        reason = judged.reason + refusals.speeds_not_judged(
            shifts[0],
            speedup="speedup" in whole.others,
            gated=len(compared.gated) < len(case.metrics),
        )
        judged = replace(judged, reason=reason)
        return gates.with_certain(judged, case, measurement, compared.gated)
    return gates.with_gates(judged, case, measurement, compared.gated)


def _verdict(found: Comparison) -> Verdict | None:
    """Return the verdict on a throughput: nothing is improved that was measured to be slower."""
    if found.verdict is Verdict.IMPROVED and (found.measured_change or 0.0) < 0:
        return Verdict.PASSED
    return found.verdict


def _agreed(
    case: Case,
    measurement: Measurement,
    baseline: Baseline,
    rule: Rule,
    doubt: Doubt,
    found: Comparison,
) -> Verdict | None:
    """Return the verdict on the throughput that all its readings agree on, or None.

    A pass needs a tolerance that was given: one that is learnt from noise has no room for what
    else moved.
    """
    if found.verdict is Verdict.REGRESSED:
        is_red = all_slower(case, measurement, baseline, rule, doubt)
        return Verdict.REGRESSED if is_red else None
    given = given_tolerance(case, baseline, rule)
    if given is None or not all_certified(case, measurement, baseline, rule, doubt, given):
        return None
    return Verdict.PASSED


def _in_spite_of(shift: Shift | None, doubt: Doubt, unsteady: str, found: Comparison) -> str:
    """Return the words about what did not keep a throughput from being judged."""
    words = ""
    if shift is not None:
        has_room = doubt.shift is not None and found.verdict is Verdict.PASSED
        why = "which the tolerance has room for" if has_room else "which does not explain it"
        by = sentences.change(math.expm1(shift.size))
        words = f"; the machine is {by} (canary {shift.name}), {why}"
    if unsteady:
        is_so = "slower" if found.verdict is Verdict.REGRESSED else "within the tolerance"
        words += f"; {unsteady}; it is {is_so} by every rate all the same"
    return words


def _others_forbid_pass(case: Case, measurement: Measurement, compared: Compared) -> bool:
    """Whether another metric than the throughput forbids to pass a case whose machine moved.

    It is worse, or a speed, which nothing was taken out of.
    """
    others, gated = compared.others.values(), compared.gated.values()
    if any(one.verdict is Verdict.REGRESSED for one in (*others, *gated)):
        return True
    return not gates.apart_from_speed(case, measurement).issuperset(compared.gated)


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
) -> tuple[list[Shift], bool]:
    """Return how the machine moved, and whether that may be all of the throughput's change.

    The sentence names the first: the largest that may be all of it, else the largest.
    """
    change, tolerance = compared.evidence.shift, margin(compared.throughput.tolerance or 0.0)
    shifts = refusals.canary_shifts(case, measurement, stored)
    if shifts:
        shifts.sort(key=lambda one: not one.explains(change, tolerance))
        return shifts, shifts[0].explains(change, tolerance)
    if compared.throughput.verdict is not Verdict.REGRESSED or compared.rates.machine is not None:
        return [], False
    # Too noisy to refuse every verdict, but it may be all that an alarm saw.
    shift = canary.slower_perhaps(measurement, stored, case.layout.device)
    return ([], False) if shift is None else ([shift], True)


def _refused(
    measurement: Measurement, compared: Compared, doubt: Doubt, unsteady: str, rule: Rule
) -> Judgement | None:
    """Return the judgement that something else than the case forbids to judge; None if nothing."""
    found = compared.throughput
    if doubt.shift is not None:
        reason = refusals.machine_moved(doubt.shift)
        return _not_judged(Verdict.INCOMPARABLE, reason, measurement, found)
    if unsteady:
        return _not_judged(Verdict.UNSTEADY, unsteady, measurement, found)
    if not compared.is_learnt or compared.tolerance <= rule.tolerance_max:
        return None
    reason = sentences.noisy(compared.tolerance, rule)
    noisy = _not_judged(Verdict.UNSTEADY, reason, measurement, found)
    # What a noisy case cannot see is why it was refused
    shown = replace(noisy.throughput, sees=found.sees, tolerance=found.tolerance)
    return replace(noisy, throughput=shown)


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
    spent = looked(case, measurement, rule)
    facts = {}
    if (memory := metrics.peak_memory(case, measurement, stored)) is not None:
        other_rule = family.of_other(rule, len(case.metrics))
        found = compare(memory, capped(memory, rule, spent), other_rule, spent)
        if found.verdict is Verdict.REGRESSED:
            facts["peak_memory"] = found
    failed = _with_facts(refused, facts, None, "")
    asked = gates.compared(case, measurement, stored, rule, spent)
    return gates.with_certain(failed, case, measurement, asked)


def _with_facts(
    refused: Judgement, facts: Mapping[str, Comparison], links: Shift | None, why: str
) -> Judgement:
    """Fail a refused case for ``facts``: metrics that regressed all the same.

    Neither a machine nor drifting steps make the peak memory grow, and the anchor and the speedup
    have noise of their own. ``links`` is the shift of a machine whose links alone became slower:
    with the library that drives them, they are what a speedup measures.
    """
    words = []
    if anchor := facts.get("anchor"):
        words.append(sentences.drifted(anchor))
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
    if drifted is not None and drifted.verdict is Verdict.REGRESSED:
        if judged.verdict is Verdict.IMPROVED:
            return replace(judged, reason=f"{judged.reason}; {sentences.below_anchor(drifted)}")
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
