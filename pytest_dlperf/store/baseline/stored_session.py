"""Convert a measurement to the session that a baseline stores."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.errors import UpdateRefusedError
from pytest_dlperf.core.metric import StoredFigures
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.quantity import rounded
from pytest_dlperf.core.run import RunSummary, stored_scaling


def session_of(outcome: Outcome, *, reason: str) -> Session:
    """Return what is stored of the measurement of ``outcome``, to six digits.

    Raises ``UpdateRefusedError`` if nothing was measured.
    """
    measurement, environment = outcome.measurement, outcome.environment
    if measurement is None or not measurement.runs:
        raise UpdateRefusedError(f"{outcome.case.id}: nothing was measured, so nothing is stored")
    memory = [run.peak_memory_bytes for run in measurement.runs]
    speedup = measurement.speedup
    return Session(
        time=outcome.time,
        runs=rounded(measurement.throughputs),
        speedup=None if speedup is None else rounded([speedup])[0],
        parent_runs=rounded(measurement.parent_throughputs),
        reference=measurement.reference,
        peak_memory_bytes=() if None in memory else rounded(m for m in memory if m is not None),
        estimates=_estimates(measurement.runs),
        metrics=_metrics(measurement.runs),
        canary=_medians([run.canary for run in measurement.runs]),
        canary_by_node=_canary_by_node(measurement.runs),
        scaling=stored_scaling(measurement.runs, outcome.case.layout.device),
        node=environment.node if environment else "",
        commit=outcome.commit,
        dirty=outcome.dirty,
        software=dict(environment.software) if environment else {},
        machine=dict(environment.machine) if environment else {},
        loss_fall=_loss_fall(measurement.runs),
        reason=reason,
    )


def _estimates(runs: Sequence[RunSummary]) -> dict[str, tuple[float, ...]]:
    """Return the runs by each rule that is known, and can be a rate, for all of them."""
    names = sorted(set.intersection(*(set(run.estimates) for run in runs)))
    by_rule = {name: rounded(run.estimates[name] for run in runs) for name in names}
    return {n: rates for n, rates in by_rule.items() if all(0 < r < math.inf for r in rates)}


def _metrics(runs: Sequence[RunSummary]) -> dict[str, StoredFigures]:
    """Return the metrics that all runs have."""
    names = sorted(set.intersection(*(set(run.metrics) for run in runs)))
    return {
        name: StoredFigures(
            runs=rounded(run.metrics[name].value for run in runs),
            unit=runs[0].metrics[name].unit,
            better=runs[0].metrics[name].better,
        )
        for name in names
    }


def _canary_by_node(runs: Sequence[RunSummary]) -> dict[str, dict[str, float]]:
    nodes = sorted({node for run in runs for node in run.canary_by_node})
    return {node: _medians([run.canary_by_node.get(node, {}) for run in runs]) for node in nodes}


def _medians(canaries: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = sorted({name for canary in canaries for name in canary})
    values = {name: [canary[name] for canary in canaries if name in canary] for name in names}
    medians = {name: rounded([statistics.median(rates)])[0] for name, rates in values.items()}
    return {name: m for name, m in medians.items() if math.isfinite(m) and m > 0}


def _loss_fall(runs: Sequence[RunSummary]) -> float | None:
    """Return by which share the loss fell, the median over runs; None if unknown."""
    falls = [run.loss_fall for run in runs if run.loss_fall is not None]
    return rounded([statistics.median(falls)])[0] if falls else None
