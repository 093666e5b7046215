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
from pytest_dlperf.judge.evidence import Evidence, Kind, loss_of
from pytest_dlperf.judge.gates import check_gates
from pytest_dlperf.judge.metrics import (
    THROUGHPUT,
    CaseMetric,
    metrics_of,
    session_now,
    with_reference_of,
)
from pytest_dlperf.judge.scaling import why
from pytest_dlperf.judge.screen import looked
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
    sessions = _Sessions(case, measurement, stored, rule)
    if baseline is None or not stored:
        return sessions.alone()
    return sessions.against(replace(baseline, sessions=stored))


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


class _Sessions:
    """A measurement, and the sessions of its level."""

    def __init__(
        self, case: Case, measurement: Measurement, stored: tuple[Session, ...], rule: Rule
    ) -> None:
        self._case, self._measurement, self._stored, self._rule = case, measurement, stored, rule
        self._device = case.layout.device
        self._spent = looked(case, measurement)

    def alone(self) -> Evidence:
        """Return the evidence of the measurement itself."""
        measurement = self._measurement
        return Evidence(
            kind=Kind.SESSIONS,
            rule=self._rule,
            unit=measurement.unit,
            throughput=measurement.throughput,
            against="the baseline",
            spent=self._spent,
            case=self._case,
            now=measurement,
            stored=self._stored,
            has_level=bool(self._stored),
            loss=loss_of(
                self._case,
                measurement,
                (session.loss_fall for session in self._stored),
                "the baseline's",
            ),
            problems=(measurement.problems,),
            lacking=self._lacking(),
        )

    def against(self, baseline: Baseline) -> Evidence:
        """Return the evidence with each metric beside that of the level, where units are equal."""
        measurement, is_measured = self._measurement, baseline.source.kind == "measured"
        evidence = replace(
            self.alone(),
            against=_name_of(baseline),
            than="stored" if is_measured else "the published number",
            differences=_differences(measurement, baseline),
            figures={
                "adaptive": self._case.protocol.adaptive,
                "runs": len(measurement.runs),
                "run_s": statistics.median(run.elapsed_s for run in measurement.runs),
                "why_so_wide": why_so_wide(self._case, baseline, self._rule),
            },
        )
        if not same_unit(measurement.unit, baseline.unit):
            return evidence
        return self._compared(evidence, baseline)

    def _lacking(self) -> Mapping[str, str]:
        lacking = {}
        for gate in self._case.metrics:
            if not all(gate.name in run.metrics for run in self._measurement.runs):
                lacking[gate.name] = "now"
            elif not any(gate.name in session.metrics for session in self._stored):
                lacking[gate.name] = "before"
        return lacking

    def _compared(self, evidence: Evidence, baseline: Baseline) -> Evidence:
        """Return the evidence with the comparison of each metric that both sides have."""
        case, measurement, rule = self._case, self._measurement, self._rule
        now = session_now(measurement, self._device)
        before = with_reference_of(now, self._stored)
        tolerance = tolerance_of(case, baseline, rule)
        metrics = metrics_of(case.metrics, self._device, (now, *self._stored), tolerance=tolerance)
        sides = {metric.name: metric.sides(now, before) for metric in metrics}
        comparisons = {
            metric.name: metric.compared(metric_sides, rule, self._spent)
            for metric in metrics
            if (metric_sides := sides[metric.name]) is not None
        }
        other_rule = family.metric_rule(rule, len(case.metrics))
        anchor = creep.against_anchor(measurement, baseline, tolerance, other_rule)
        if anchor is not None:
            comparisons["anchor"] = anchor
        rate = sides[THROUGHPUT]
        assert rate is not None
        scaling = [session.scaling for session in self._stored]
        return replace(
            evidence,
            comparisons=comparisons,
            metrics={metric.name: metric for metric in metrics},
            contrast=rate.contrast(),
            by_estimator=self._rates_by_estimator(now, metrics[0]),
            why_devices_wait=why(measurement.runs, scaling, self._device),
            parent_change=_parent_change(now, before, rate),
        )

    def _rates_by_estimator(self, now: Session, rate: CaseMetric) -> Mapping[str, Comparison]:
        """Return the throughput by each other estimator that both sides have."""
        compared = {}
        for name in ESTIMATORS:
            both = (now, *self._stored)
            if not all(name in session.estimates for session in both):
                continue
            for session in self._stored:
                what = f"the session of {session.time} in the baseline, {name.replace('_', ' ')}"
                check_rates(session.estimates[name], what)
            value, *stored = (session_value(session.estimates[name]) for session in both)
            sides = Sides(now=value, stored=tuple(stored), prior=rate.prior)
            rule = rate.rule(self._rule)
            compared[name] = compare(sides, rate.tolerance, rule, self._spent)
        return compared


def _name_of(baseline: Baseline) -> str:
    """Return the name of what is compared with: stored, or a published number."""
    if baseline.source.kind != "measured":
        parts = (baseline.source.document, baseline.source.table)
        where = " ".join(part for part in parts if part)
        return f"the published number ({where})" if where else "the published number"
    return "the one stored session" if len(baseline.sessions) == 1 else "the baseline"


def _differences(measurement: Measurement, baseline: Baseline) -> tuple[str, ...]:
    if not same_unit(measurement.unit, baseline.unit):
        return (f"unit: {measurement.unit}, was {baseline.unit}",)
    if baseline.conditions is None:
        return ()
    return measurement.conditions.differences(baseline.conditions)


def _parent_change(now: Session, stored: Sequence[Session], rate: Sides) -> float | None:
    """Return by which share the parent became faster: it may explain a lower speedup."""
    before = tuple(session_value(session.parent_runs) for session in stored if session.parent_runs)
    if not now.parent_runs or not before:
        return None
    parent = Sides(now=session_value(now.parent_runs), stored=before, prior=rate.prior)
    return parent.now.amount / parent.before - 1
