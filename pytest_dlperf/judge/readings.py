"""Every admissible reading of a throughput: by each estimator, and with the machine taken out.

A case that is slower by all of them is ``regressed``: what would leave it unjudged (a tolerance
that noise made too large, a machine that moved, steps that drift) does not explain the change.
A case that all of them certify within a tolerance that was given is ``passed``.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.core.verdict import Rule
from pytest_dlperf.judge import metrics
from pytest_dlperf.judge.canary import Shift
from pytest_dlperf.judge.compare import is_certainly_slower
from pytest_dlperf.judge.metrics import MetricValues
from pytest_dlperf.judge.screen import Spending, looked
from pytest_dlperf.judge.stats import family
from pytest_dlperf.judge.stats.contrast import Contrast, margin, run_variance

#: The rate estimators beside work over time, as runs and sessions name them.
ESTIMATORS: Final = ("mean_of_rates", "median_step")
#: How much a training that follows the canary may do so: as much, or twice as much.
_SLOPES: Final = (1.0, 2.0)
_Choice = Callable[[Sequence[float]], float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Doubt:
    """What else may explain a change of the throughput."""

    #: How the machine moved, by each canary metric that did; empty if it did not.
    shifts: tuple[Shift, ...] = ()
    #: Whether the steps of a run were not all alike.
    drifts: bool = False
    #: Whether something else forbids a pass, which no reading takes out.
    forbids_pass: bool = False

    @property
    def shift(self) -> Shift | None:
        """The shift that the sentence names; None if the machine did not move."""
        return self.shifts[0] if self.shifts else None


def all_slower(
    case: Case, measurement: Measurement, baseline: Baseline, rule: Rule, doubt: Doubt
) -> bool:
    """Whether every admissible reading is certainly slower, by more than ``min_effect``.

    Each is judged at the error rate of an alarm of the throughput at this look, and sessions are
    taken to vary as much as runs at least, whatever the prior says. Steps that drift
    are read by the faster half of each window as well; without their records it is not shown.
    """
    sides = _sides(measurement, baseline, [min] if doubt.drifts else [])
    return sides is not None and all(
        is_certainly_slower(found, family.of_throughput(rule), spent)
        for found, spent in _contrasts(case, sides, rule, doubt.shifts)
    )


def slower_beside_others(
    case: Case, measurement: Measurement, baseline: Baseline, rule: Rule, doubt: Doubt
) -> bool:
    """Whether a case is certainly slower although other programs disturbed its runs.

    Only on CPUs, where their use of these is all that disturbed runs, and fixed work in the same
    windows shows what it does to such work: the case must be slower as measured, and without the
    machine's speed. At the first look nothing is shown.
    """
    runs = measurement.runs
    if len(runs) < case.protocol.runs or any(
        run.disturbed and not run.others_cpu_alone for run in runs
    ):
        return False
    stored = [session for session in baseline.level if session.runs]
    rates = metrics.throughput(case, measurement, stored, rule)
    spent = looked(case, measurement, rule)
    return is_slower_as_measured(rates, rule, spent, None) and all_slower(
        case, measurement, baseline, rule, doubt
    )


def all_certified(
    case: Case,
    measurement: Measurement,
    baseline: Baseline,
    rule: Rule,
    doubt: Doubt,
    tolerance: float,
) -> bool:
    """Whether every admissible reading is certified within ``tolerance``, a share.

    At the error rate of a certificate of the throughput at this look. Steps that drift are read by
    either half of each window as well.
    """
    if doubt.forbids_pass:
        return False
    sides = _sides(measurement, baseline, [min, max] if doubt.drifts else [])
    bound, alpha = -margin(tolerance), family.of_throughput(rule).alpha
    return sides is not None and all(
        found.certified(alpha * spent.certify) > bound
        for found, spent in _contrasts(case, sides, rule, doubt.shifts)
    )


def is_slower_as_measured(
    metric: MetricValues, rule: Rule, spent: Spending, given: float | None
) -> bool:
    """Whether rates that the machine's speed was taken out of are certainly slower as measured.

    Not where they are certified within the tolerance ``given``, a share, as measured as well.
    """
    if metric.as_measured is None:
        return False
    found, rates_rule = _cautious(metric.as_measured), family.of_throughput(rule)
    if given is not None and found.certified(rates_rule.alpha * spent.certify) > -margin(given):
        return False
    return is_certainly_slower(found, rates_rule, spent)


def _sides(
    measurement: Measurement, baseline: Baseline, halves: Sequence[_Choice]
) -> list[tuple[Measurement, Baseline]] | None:
    """Return both sides by each estimator, and by the ``halves`` of each window.

    None where the halves are not known.
    """
    sides = [(measurement, baseline)]
    for name in ESTIMATORS:
        other = by_estimator(measurement, baseline, name)
        sides += [] if other is None else [other]
    for choice in halves:
        half = by_half(measurement, choice)
        if half is None:
            return None
        sides.append((half, baseline))
    return sides


def _contrasts(
    case: Case,
    sides: Sequence[tuple[Measurement, Baseline]],
    rule: Rule,
    shifts: Sequence[Shift],
) -> Iterator[tuple[Contrast, Spending]]:
    """Yield every reading of the sides that are rates of one kind with the first of them.

    As measured, or with the machine's speed taken out.
    """
    is_taken_out: bool | None = None
    for now, before in sides:
        stored = [session for session in before.level if session.runs]
        metric = metrics.throughput(case, now, stored, rule)
        if is_taken_out is None:
            is_taken_out = metric.machine is not None
        if is_taken_out is (metric.machine is not None):
            for one in _read(_cautious(metric), shifts):
                yield one, looked(case, now, rule)


def _cautious(metric: MetricValues) -> Contrast:
    """Return the contrast of sessions that vary as much as runs at least.

    Runs that vary show a machine whose sessions do: nothing else bounds what one session is off,
    but the machine's own speed where that was taken out.
    """
    prior = metric.prior
    if metric.as_measured is None:
        runs, _ = run_variance([*metric.stored, metric.now], prior)
        prior = replace(prior, session_sd=max(prior.session_sd, math.sqrt(runs)))
    return metric.contrast(prior)


def _read(found: Contrast, shifts: Sequence[Shift]) -> Iterator[Contrast]:
    """Yield the contrast as it is, and with each of the canary's shifts taken out by each slope.

    Where its metrics moved apart, any of them may be the one that the training follows.
    """
    yield found
    for shift, slope in itertools.product(shifts, _SLOPES):
        wider = found.wider(slope * shift.noise, shift.df)
        yield replace(wider, shift=found.shift - slope * shift.size)


def by_estimator(
    measurement: Measurement, baseline: Baseline, name: str
) -> tuple[Measurement, Baseline] | None:
    """Return both sides with their runs by another estimator; None where a side lacks it.

    Without parents and memory, which the estimator does not concern.
    """
    stored = [session for session in baseline.level if session.runs]
    if not all(name in run.estimates for run in measurement.runs):
        return None
    if not stored or not all(name in session.estimates for session in stored):
        return None
    rates = [run.estimates[name] for run in measurement.runs]
    if not all(math.isfinite(rate) and rate > 0 for rate in rates):
        return None
    sessions = tuple(
        replace(
            session,
            runs=session.estimates[name],
            speedup=None,
            parent_runs=(),
            peak_memory_bytes=(),
        )
        for session in stored
    )
    return (_with_rates(measurement, rates), replace(baseline, sessions=sessions))


def by_half(measurement: Measurement, choice: _Choice) -> Measurement | None:
    """Return the measurement with each run's rate over one half of its window.

    ``choice`` is applied to the mean seconds of a step of either half: ``min`` takes the faster
    one. None where the seconds of its iterations are not known.
    """
    first, end = measurement.conditions.window
    rates = [_half(run, run.step_seconds[first:end], choice) for run in measurement.runs]
    known = [rate for rate in rates if rate is not None]
    return _with_rates(measurement, known) if len(known) == len(rates) else None


def _half(run: RunSummary, seconds: Sequence[float], choice: _Choice) -> float | None:
    half = len(seconds) // 2
    if not half or min(seconds) <= 0:
        return None
    halves = statistics.fmean(seconds[:half]), statistics.fmean(seconds[half:])
    return run.throughput * statistics.fmean(seconds) / choice(halves)


def _with_rates(measurement: Measurement, rates: Sequence[float]) -> Measurement:
    runs = tuple(
        replace(run, throughput=rate, peak_memory_bytes=None)
        for run, rate in zip(measurement.runs, rates, strict=True)
    )
    return replace(measurement, runs=runs, parent_throughputs=())
