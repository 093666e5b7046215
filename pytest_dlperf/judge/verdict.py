"""Judges a case against its baseline: reasons not to judge, throughput, then other metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pytest_dlperf.core.baseline import Baseline, Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.measurement import SPEEDUP_UNKNOWN, Measurement
from pytest_dlperf.core.verdict import GOOD, Comparison, Judgement, Rule, Verdict
from pytest_dlperf.judge import convergence, metrics, refusals, scaling, sentences
from pytest_dlperf.judge.canary import Shift
from pytest_dlperf.judge.compare import compare, is_certainly_slower, learnt_tolerance
from pytest_dlperf.judge.metrics import Metric, level
from pytest_dlperf.judge.screen import Spending, spending
from pytest_dlperf.judge.stats import family
from pytest_dlperf.judge.stats.levels import margin
from pytest_dlperf.judge.stats.stored import contrast


def judge(
    case: Case, measurement: Measurement, baseline: Baseline | None, rule: Rule
) -> Judgement:
    """Return the verdict on one case; ``docs/verdicts.md`` explains the rule.

    Raises ``CaseError`` for measured or stored rates that are not positive finite numbers.
    """
    stored = _check(measurement, baseline)
    differs = refusals.differs(measurement, baseline) if baseline is not None and stored else ""
    if not differs and (reason := convergence.fault(case, measurement, stored)):
        return _not_judged(Verdict.ERROR, reason, measurement)
    if reason := (refusals.disturbed(measurement) or refusals.unchecked(measurement) or differs):
        return _not_judged(Verdict.INCOMPARABLE, reason, measurement)
    unsteady = refusals.unsteady(case, measurement, rule)
    if baseline is None or not stored:
        if unsteady:
            return _not_judged(Verdict.UNSTEADY, unsteady, measurement)
        return _not_judged(Verdict.NO_BASELINE, refusals.NO_BASELINE, measurement)
    of_level = replace(baseline, sessions=stored)
    return _judge_against(case, measurement, of_level, stored, rule, unsteady)


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
    verdict: Verdict, reason: str, measurement: Measurement, known: Comparison | None = None
) -> Judgement:
    known = known or Comparison(now=measurement.throughput)
    known = replace(known, change=None, interval=None, verdict=verdict)
    return Judgement(verdict=verdict, reason=reason, throughput=known)


def _judge_against(
    case: Case,
    measurement: Measurement,
    baseline: Baseline,
    stored: Sequence[Session],
    rule: Rule,
    unsteady: str,
) -> Judgement:
    """Return the verdict on a case whose baseline has the same conditions."""
    metric = metrics.throughput(case, measurement, stored, rule)
    spent = spending(case.protocol, len(measurement.runs), metric.prior)
    given = _given_tolerance(case, baseline, rule)
    tolerance = learnt_tolerance(metric, rule, spent) if given is None else given
    found = compare(metric, tolerance, family.of_throughput(rule), spent)
    shift = refusals.canary_shift(case, measurement, stored)
    evidence = contrast([metric.now], metric.stored, metric.prior)
    why = scaling.why(
        measurement.runs, [session.scaling for session in stored], case.layout.device
    )
    speedup = metrics.speedup(case, measurement, stored, rule)
    if shift is not None and shift.explains(evidence.shift, margin(tolerance)):
        reason = refusals.machine_moved(shift)
        refused = _not_judged(Verdict.INCOMPARABLE, reason, measurement, replace(found, sees=None))
        if speedup is None or not refusals.only_links_slower(case, measurement, stored):
            return refused
        fallen = compare(speedup, _capped(speedup, rule, spent), family.of_other(rule), spent)
        return _with_slower_links(refused, fallen, shift, why)
    if unsteady:
        return _not_judged(Verdict.UNSTEADY, unsteady, measurement, replace(found, sees=None))
    if given is None and tolerance > rule.tolerance_max:
        reason = sentences.noisy(tolerance, rule)
        return _not_judged(Verdict.UNSTEADY, reason, measurement, found)
    others = {
        name: compare(other, _capped(other, rule, spent), family.of_other(rule), spent)
        for name, other in (
            ("speedup", speedup),
            ("peak_memory", metrics.peak_memory(case, measurement, stored)),
        )
        if other is not None
    }
    drifted = _against_anchor(metric, baseline, given, family.of_other(rule), spent)
    if drifted is not None:
        others["anchor"] = drifted
    reason = sentences.throughput(
        found,
        rule,
        measurement.unit,
        slower=is_certainly_slower(evidence, family.of_throughput(rule), spent),
        against=_name(baseline, found),
        takes=sentences.what_it_takes(found, measurement.runs, case.protocol),
    )
    if shift is not None:
        moved = sentences.change(math.expm1(shift.size))
        reason += f"; the machine is {moved} (canary {shift.name}), which does not explain it"
    if metric.new_node:
        reason += sentences.new_node(metric.new_node)
    judged = Judgement(
        verdict=found.verdict or Verdict.INCONCLUSIVE,
        reason=reason,
        throughput=found,
        metrics=others,
    )
    if speedup is None:
        judged = replace(judged, reason=judged.reason + _unjudged_speedup(measurement, stored))
    parent = metrics.parent(case, measurement, stored, rule)
    return _with_metrics(judged, parent, why, measurement.reference_words)


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


def _given_tolerance(case: Case, baseline: Baseline, rule: Rule) -> float | None:
    """Return the tolerance that was set: by the command line, the case, or the baseline."""
    for given in (rule.tolerance, case.tolerance, baseline.tolerance):
        if given is not None:
            return given
    return None


def _capped(metric: metrics.Metric, rule: Rule, spent: Spending) -> float:
    return min(learnt_tolerance(metric, rule, spent), rule.tolerance_max)


def _against_anchor(
    metric: Metric, baseline: Baseline, given: float | None, rule: Rule, spent: Spending
) -> Comparison | None:
    """Return the throughput against the anchor; None while nothing else is stored.

    The anchor is a fixed level. Each session that passes is appended, so the level of the stored
    sessions follows many small steps down, each within the tolerance; against the anchor they add
    up. ``regressed`` only where the change is certainly beyond the tolerance. Where none is
    ``given``, it is learnt from the anchor and the prior: the spread of the sessions since would
    grow with the drift that it has to limit.
    """
    anchor = baseline.anchor
    if anchor is None or (len(baseline.sessions) == 1 and baseline.sessions[0] == anchor):
        return None
    against = replace(metric, stored=(level(anchor.runs, node=anchor.node),))
    tolerance = learnt_tolerance(against, rule, spent) if given is None else given
    return compare(against, tolerance, replace(rule, min_effect=tolerance), spent)


def _name(baseline: Baseline, found: Comparison) -> str:
    if baseline.source.kind != "measured":
        where = " ".join(
            part for part in (baseline.source.document, baseline.source.table) if part
        )
        return f"the published number ({where})" if where else "the published number"
    return "the one stored session" if found.provisional else "the baseline"


def _with_slower_links(
    refused: Judgement, fallen: Comparison, shift: Shift, why: str
) -> Judgement:
    """Fail a case whose speedup certainly fell, if nothing but the links became slower.

    One device was measured in the same session, and links, with the library that drives them, are
    what speedup measures. In all other cases the judgement stays ``refused``.
    """
    if fallen.verdict is not Verdict.REGRESSED:
        return refused
    reason = f"{sentences.speedup(fallen, why)}; {refusals.links_slower(shift)}"
    return replace(refused, verdict=Verdict.REGRESSED, reason=reason, metrics={"speedup": fallen})


def _with_metrics(
    judged: Judgement, parent: metrics.Metric | None, why: str, reference: str
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
