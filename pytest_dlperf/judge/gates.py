"""Checks the metrics that a marker gates: each is there, and has one meaning."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.metric import Figure, Gate
from pytest_dlperf.core.metrics import METRICS, gate_of


def check_gates(case: Case, measurement: Measurement, stored: Sequence[Session]) -> None:
    """Raise ``CaseError`` where a gated metric is missing, or has another meaning than before.

    A built-in metric that neither side has may be missing: that layout or program lacks it.
    """
    for gate in case.metrics:
        now = figures(gate, measurement)
        before = [session.metrics[gate.name] for session in stored if gate.name in session.metrics]
        some = any(gate.name in run.metrics for run in measurement.runs)
        if not now and (some or before or gate.name not in METRICS):
            was = ", and stored sessions have it" if before else ""
            raise CaseError(
                f"{case.id}: metric {gate.name} is gated, and not every run has it{was}; "
                f"{_remedy(gate)}"
            )
        meanings = {(figure.unit, figure.better) for figure in now}
        meanings |= {(kept.unit, kept.better) for kept in before}
        if len(meanings) > 1:
            words = " and ".join(
                f"unit {unit!r}, better {better!r}" for unit, better in sorted(meanings)
            )
            raise CaseError(
                f"{case.id}: metric {gate.name} has more than one meaning among its runs and the "
                f"stored sessions ({words}); give the new one another name"
            )
        values = [figure.value for figure in now]
        values += [value for kept in before for value in kept.runs]
        if not gate_of(gate).is_count and any(value <= 0 for value in values):
            raise CaseError(
                f"{case.id}: metric {gate.name} has a value of {min(values):g}, and changes are "
                'compared as shares of values above 0; gate it as a count ("count")'
            )


def figures(gate: Gate, measurement: Measurement) -> list[Figure]:
    """Return the metric of each run; nothing where a run lacks it."""
    known = [run.metrics[gate.name] for run in measurement.runs if gate.name in run.metrics]
    return known if len(known) == len(measurement.runs) else []


def _remedy(gate: Gate) -> str:
    if gate.name in METRICS:
        return f"it needs {METRICS[gate.name].needs}"
    known = ", ".join(sorted(METRICS))
    return (
        "report it with mark.metric or job.metric until the window ends, or look at its name "
        f"(built in: {known})"
    )


def unmoved_by_speed(case: Case, measurement: Measurement) -> frozenset[str]:
    """Return the gated metrics that count although the machine moved or steps drift."""
    return frozenset(
        gate.name
        for gate in case.metrics
        if gate_of(gate).is_count
        or any(figure.unit == "bytes" for figure in figures(gate, measurement))
    )
