"""Runs of now against stored sessions."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pytest_dlperf.core.baseline import Baseline, Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.quantity import same_unit
from pytest_dlperf.core.verdict import Comparison, Rule
from pytest_dlperf.judge import creep
from pytest_dlperf.judge.compare import compare
from pytest_dlperf.judge.evidence import Evidence, Kind, Loss
from pytest_dlperf.judge.gates import check_gates
from pytest_dlperf.judge.metrics import (
    THROUGHPUT,
    CaseMetric,
    metrics_of,
    session_now,
    with_reference_of,
)
from pytest_dlperf.judge.scaling import why
from pytest_dlperf.judge.screen import Spending, looked
from pytest_dlperf.judge.sides import Sides, check_rates, session_value
from pytest_dlperf.judge.stats import family
from pytest_dlperf.judge.tolerance import tolerance_of, why_so_wide

#: The rate estimators beside work over time, as runs and sessions name them.
ESTIMATORS: Final = ("mean_of_rates", "median_step")


def evidence_of_sessions(
    case: Case, measurement: Measurement, baseline: Baseline | None, rule: Rule
) -> Evidence:
    """Return a measurement beside the level of its baseline.

    Raises ``CaseError`` for measured or stored rates that are not positive finite numbers, and for
    a gated metric that is missing or has two meanings.
    """
    stored = _checked(measurement, baseline)
    check_gates(case, measurement, stored)
    evidence = Evidence(
        kind=Kind.SESSIONS,
        rule=rule,
        unit=measurement.unit,
        throughput=measurement.throughput,
        against="the baseline",
        spent=looked(case, measurement),
        case=case,
        now=measurement,
        stored=stored,
        has_level=bool(stored),
        loss=_loss(case, measurement, stored),
        problems=(measurement.problems,),
        lacking=_lacking(case, measurement, stored),
    )
    if baseline is None or not stored:
        return evidence
    evidence = replace(
        evidence,
        against=_against(baseline, stored),
        than="stored" if baseline.source.kind == "measured" else "the published number",
        differences=_differences(measurement, baseline),
        figures=_figures(case, measurement, baseline, rule),
    )
    if not same_unit(measurement.unit, baseline.unit):
        return evidence
    return _compared(evidence, case, measurement, replace(baseline, sessions=stored))


def _checked(measurement: Measurement, baseline: Baseline | None) -> tuple[Session, ...]:
    """Return the sessions of the level with runs; raise ``CaseError`` for impossible rates."""
    if not measurement.runs:
        raise CaseError(f"{measurement.case_id}: no valid run, so there is nothing to judge")
    check_rates(measurement.throughputs, f"{measurement.case_id}, a run")
    parent = f"{measurement.case_id}, {measurement.reference_words}"
    check_rates(measurement.parent_throughputs, parent)
    sessions = () if baseline is None else baseline.level
    stored = tuple(session for session in sessions if session.runs)
    for session in stored:
        what = f"{measurement.case_id}, the session of {session.time} in the baseline"
        check_rates((*session.runs, *session.parent_runs), what)
    return stored


def _loss(case: Case, measurement: Measurement, stored: Sequence[Session]) -> Loss | None:
    before = tuple(s.loss_fall for s in stored if s.loss_fall is not None)
    if case.loss != "falls" or measurement.conditions.data != "synthetic" or not before:
        return None
    return Loss(
        now=tuple(run.loss_fall for run in measurement.runs),
        before=before,
        precision=case.precision,
        whose="the baseline's",
    )


def _against(baseline: Baseline, stored: Sequence[Session]) -> str:
    """Return the name of what is compared with: stored, or a published number."""
    if baseline.source.kind != "measured":
        parts = (baseline.source.document, baseline.source.table)
        where = " ".join(part for part in parts if part)
        return f"the published number ({where})" if where else "the published number"
    return "the one stored session" if len(stored) == 1 else "the baseline"


def _differences(measurement: Measurement, baseline: Baseline) -> tuple[str, ...]:
    if not same_unit(measurement.unit, baseline.unit):
        return (f"unit: {measurement.unit}, was {baseline.unit}",)
    if baseline.conditions is None:
        return ()
    return measurement.conditions.differences(baseline.conditions)


def _figures(
    case: Case, measurement: Measurement, baseline: Baseline, rule: Rule
) -> Mapping[str, str | int | float | bool]:
    return {
        "adaptive": case.protocol.adaptive,
        "runs": len(measurement.runs),
        "run_s": statistics.median(run.elapsed_s for run in measurement.runs),
        "why_so_wide": why_so_wide(case, baseline, rule),
    }


def _compared(
    evidence: Evidence, case: Case, measurement: Measurement, baseline: Baseline
) -> Evidence:
    """Return the evidence with the comparison of each metric that both sides have."""
    rule, spent, stored, device = (
        evidence.rule,
        evidence.spent,
        evidence.stored,
        case.layout.device,
    )
    now = session_now(measurement, device)
    before = with_reference_of(now, stored)
    tolerance = tolerance_of(case, baseline, rule)
    metrics = metrics_of(case.metrics, device, (now, *stored), tolerance=tolerance)
    both = {metric.name: metric.sides(now, before) for metric in metrics}
    comparisons = {
        metric.name: metric.compared(sides, rule, spent)
        for metric in metrics
        if (sides := both[metric.name]) is not None
    }
    other_rule = family.of_other(rule, len(case.metrics))
    anchor = creep.against_anchor(measurement, baseline, tolerance, other_rule)
    if anchor is not None:
        comparisons["anchor"] = anchor
    rate = both[THROUGHPUT]
    assert rate is not None
    scaling = [session.scaling for session in stored]
    return replace(
        evidence,
        comparisons=comparisons,
        metrics={metric.name: metric for metric in metrics},
        contrast=rate.contrast(),
        by_estimator=_by_estimator(now, stored, metrics[0], rule, spent),
        why_devices_wait=why(measurement.runs, scaling, device),
        parent_change=_parent_change(now, before, rate),
    )


def _by_estimator(
    now: Session, stored: Sequence[Session], rate: CaseMetric, rule: Rule, spent: Spending
) -> Mapping[str, Comparison]:
    """Return the throughput by each other estimator that both sides have."""
    compared = {}
    for name in ESTIMATORS:
        if name not in now.estimates or not all(name in one.estimates for one in stored):
            continue
        for one in stored:
            what = f"the session of {one.time} in the baseline, {name.replace('_', ' ')}"
            check_rates(one.estimates[name], what)
        sides = Sides(
            now=session_value(now.estimates[name]),
            stored=tuple(session_value(one.estimates[name]) for one in stored),
            prior=rate.prior,
        )
        compared[name] = compare(sides, rate.tolerance, rate.rule(rule), spent)
    return compared


def _parent_change(now: Session, stored: Sequence[Session], rate: Sides) -> float | None:
    """Return by which share the parent became faster: it may explain a lower speedup."""
    before = tuple(session_value(one.parent_runs) for one in stored if one.parent_runs)
    if not now.parent_runs or not before:
        return None
    parent = Sides(now=session_value(now.parent_runs), stored=before, prior=rate.prior)
    return parent.now.amount / parent.before - 1


def _lacking(case: Case, measurement: Measurement, stored: Sequence[Session]) -> Mapping[str, str]:
    lacking = {}
    for gate in case.metrics:
        if not all(gate.name in run.metrics for run in measurement.runs):
            lacking[gate.name] = "now"
        elif not any(gate.name in session.metrics for session in stored):
            lacking[gate.name] = "before"
    return lacking
