"""The metrics of a case, as sessions have them: their values, noise, tolerance and error rate."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.layout import DeviceKind
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.metric import Better, Figure, Gate, StoredFigures
from pytest_dlperf.core.metrics import gate_of
from pytest_dlperf.core.run import RunSummary, stored_scaling
from pytest_dlperf.core.verdict import (
    MEMORY_TOLERANCE,
    TOLERANCE,
    Comparison,
    Prior,
    Rule,
    Verdict,
)
from pytest_dlperf.judge.compare import compare
from pytest_dlperf.judge.screen import Spending
from pytest_dlperf.judge.sides import Sides, check_rates, ratio_value, session_value
from pytest_dlperf.judge.stats import family, priors
from pytest_dlperf.judge.stats.contrast import SessionValue

THROUGHPUT: Final = "throughput"
SPEEDUP: Final = "speedup"
PEAK_MEMORY: Final = "peak_memory"
#: Units whose figures depend neither on the speed of the machine nor on steps that drift.
_FIXED: Final = frozenset({"bytes"})
#: The tolerance where none is given: times of a start differ more than rates do.
_TOLERANCE: Final = 0.10


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseMetric:
    """A metric that a case is compared by."""

    name: str
    #: Its value in a session; None where the session has none to compare.
    value_in: Callable[[Session], SessionValue | None]
    prior: Prior
    #: 1 where higher is better, -1 where lower is.
    sign: int = 1
    #: The change for the worse up to which it passes, a share.
    tolerance: float = TOLERANCE
    #: Whether any change for the worse fails; its values are those of the runs.
    is_count: bool = False
    unit: str = ""
    #: Whether it is one that the marker gates, and how many of these there are: alpha is split
    #: over them too.
    is_gate: bool = False
    gates: int = 0

    @property
    def is_fixed(self) -> bool:
        """Whether it counts although the machine moved or steps drift."""
        return self.is_count or self.name == PEAK_MEMORY or self.unit in _FIXED

    def rule(self, rule: Rule) -> Rule:
        """Return ``rule`` with the part of a case's error rate that this metric may spend."""
        if self.name == THROUGHPUT:
            return family.throughput_rule(rule)
        split = family.memory_rule if self.name == PEAK_MEMORY else family.metric_rule
        return split(rule, self.gates)

    def sides(self, now: Session, stored: Sequence[Session]) -> Sides | None:
        """Return both sides; None where one has no value."""
        value = self.value_in(now)
        before = [known for session in stored if (known := self.value_in(session)) is not None]
        if value is None or not before:
            return None
        return Sides(now=value, stored=tuple(before), prior=self.prior, sign=self.sign)

    def compared(self, sides: Sides, rule: Rule, spent: Spending) -> Comparison:
        """Return the comparison of both sides; of a count, with the newest stored session.

        So what got better stays so.
        """
        if self.is_count:
            return self.counted(sides.now.samples[0], sides.stored[-1].samples[0])
        return compare(sides, self.tolerance, self.rule(rule), spent)

    def counted(self, now: Sequence[float], before: Sequence[float]) -> Comparison:
        """Return the comparison of counts: the worst run now, and the worst run before."""
        return count_comparison(now, before, "higher" if self.sign > 0 else "lower")


def metrics_of(
    gates: Sequence[Gate],
    device: DeviceKind,
    sessions: Sequence[Session],
    *,
    tolerance: float = TOLERANCE,
) -> tuple[CaseMetric, ...]:
    """Return what a case is compared by: the metrics of every case, and those of its marker.

    ``sessions`` have the units of the latter, the first that has a metric counts; ``tolerance`` is
    that of the throughput.
    """
    rate = priors.THROUGHPUT[device]
    return (
        CaseMetric(
            name=THROUGHPUT,
            value_in=lambda session: session_value(session.runs),
            prior=rate,
            tolerance=tolerance,
        ),
        CaseMetric(name=SPEEDUP, value_in=_speedup, prior=rate, gates=len(gates)),
        CaseMetric(
            name=PEAK_MEMORY,
            value_in=_peak_memory,
            prior=priors.MEMORY[device],
            sign=-1,
            tolerance=MEMORY_TOLERANCE,
            unit="bytes",
            gates=len(gates),
        ),
        *(_gated(gate_of(gate), len(gates), device, sessions) for gate in gates),
    )


def _gated(gate: Gate, gates: int, device: DeviceKind, sessions: Sequence[Session]) -> CaseMetric:
    stored = (session.metrics[gate.name] for session in sessions if gate.name in session.metrics)
    figures = next(stored, StoredFigures(runs=()))
    is_count = gate.is_count is True
    sign = 1 if figures.better == "higher" else -1
    return CaseMetric(
        name=gate.name,
        value_in=functools.partial(_gated_value, gate.name, sign, is_count),
        prior=priors.prior_of_figure(figures.unit, device),
        sign=sign,
        tolerance=0.0 if is_count else tolerance_of_gate(gate, figures.unit),
        is_count=is_count,
        unit=figures.unit,
        is_gate=True,
        gates=gates,
    )


def _gated_value(name: str, sign: int, is_count: bool, session: Session) -> SessionValue | None:
    runs = session.metrics[name].runs if name in session.metrics else ()
    if is_count and runs:
        worst = min(runs) if sign > 0 else max(runs)
        return SessionValue(amount=worst, value=worst, samples=(tuple(runs),))
    return session_value(runs, sign=sign) if runs and min(runs) > 0 else None


def tolerance_of_gate(gate: Gate, unit: str) -> float:
    """Return the change for the worse up to which a metric in ``unit`` passes, a share.

    The one of its marker, or of the table of metrics, else 2 % of bytes and 10 % of all others.
    """
    if gate.tolerance is not None:
        return gate.tolerance
    return MEMORY_TOLERANCE if unit == "bytes" else _TOLERANCE


def count_comparison(now: Sequence[float], before: Sequence[float], better: Better) -> Comparison:
    """Return the comparison of counts: the worst run now, and the worst run before."""
    worst = max if better == "lower" else min
    worst_now, worst_before = worst(now), worst(before)
    worse = worst_now > worst_before if better == "lower" else worst_now < worst_before
    verdict = Verdict.PASSED if worst_now == worst_before else Verdict.IMPROVED
    return Comparison(
        now=worst_now,
        before=worst_before,
        change=worst_now / worst_before - 1 if worst_before else None,
        tolerance=0.0,
        verdict=Verdict.REGRESSED if worse else verdict,
    )


def _speedup(session: Session) -> SessionValue | None:
    """Return the median of a session over the median of its parent; None where it has none."""
    if session.parent_runs:
        return ratio_value(session.runs, session.parent_runs)
    if session.speedup is None:
        return None
    check_rates([session.speedup], "a stored speedup")
    return SessionValue(
        amount=session.speedup,
        value=math.log(session.speedup),
        samples=session_value(session.runs).samples,
    )


def _peak_memory(session: Session) -> SessionValue | None:
    """Return the peak memory of the largest rank; None where it is unknown, or 0."""
    values = session.peak_memory_bytes
    return session_value(values, sign=-1) if values and min(values) > 0 else None


def has_speedup(session: Session) -> bool:
    """Return whether a session has a speedup; raise ``CaseError`` for an impossible one."""
    return _speedup(session) is not None


def with_reference_of(now: Session, stored: Sequence[Session]) -> tuple[Session, ...]:
    """Return stored sessions without a speedup over another layout than that of ``now``.

    It is no other value of the same metric.
    """
    return tuple(
        session
        if session.reference == now.reference
        else replace(session, speedup=None, parent_runs=())
        for session in stored
    )


def session_now(measurement: Measurement, device: DeviceKind) -> Session:
    """Return a measurement as a session, to be compared with stored ones."""
    runs = measurement.runs
    peaks = [float(run.peak_memory_bytes or 0) for run in runs]
    falls = [run.loss_fall for run in runs if run.loss_fall is not None]
    return Session(
        time="",
        runs=measurement.throughputs,
        parent_runs=measurement.parent_throughputs,
        reference=measurement.reference,
        peak_memory_bytes=tuple(peaks),
        estimates=_estimates(runs),
        metrics=figures_of_runs(runs),
        scaling=stored_scaling(runs, device),
        loss_fall=falls[0] if falls else None,
    )


def _estimates(runs: Sequence[RunSummary]) -> Mapping[str, tuple[float, ...]]:
    """Return the runs by each estimator that all of them have, where each is a rate."""
    names = set.intersection(*(set(run.estimates) for run in runs))
    rates = {name: tuple(run.estimates[name] for run in runs) for name in sorted(names)}
    return {
        name: values
        for name, values in rates.items()
        if all(math.isfinite(rate) and rate > 0 for rate in values)
    }


def figures_of_runs(runs: Sequence[RunSummary]) -> Mapping[str, StoredFigures]:
    """Return the metrics that all runs have."""
    names = set.intersection(*(set(run.metrics) for run in runs))
    figures: dict[str, Figure] = {name: runs[0].metrics[name] for name in sorted(names)}
    return {
        name: StoredFigures(
            runs=tuple(run.metrics[name].value for run in runs),
            unit=figure.unit,
            better=figure.better,
        )
        for name, figure in figures.items()
    }
