"""The metrics of every case (throughput, speedup, peak memory): now, and in stored sessions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.verdict import Prior
from pytest_dlperf.judge.stats import priors
from pytest_dlperf.judge.stats.contrast import Contrast, SessionValue
from pytest_dlperf.judge.stats.stored import contrast


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricValues:
    """Both sides of one comparison, and the prior for its noise."""

    now: SessionValue
    stored: tuple[SessionValue, ...]
    prior: Prior
    #: 1 where higher is better, -1 where lower is.
    sign: int = 1

    def contrast(self) -> Contrast:
        """Return the contrast of both sides."""
        return contrast([self.now], self.stored, self.prior)

    @property
    def before(self) -> float:
        """The mean of the stored sessions, as people read it."""
        mean = statistics.fmean(one.value for one in self.stored)
        return float(f"{math.exp(self.sign * mean):.12g}")


def check_rates(rates: Sequence[float], what: str) -> None:
    """Raise ``CaseError`` unless every rate is finite and above 0."""
    for rate in rates:
        if not (math.isfinite(rate) and rate > 0):
            raise CaseError(
                f"{what}: a rate of {rate} is not a throughput, so nothing can be judged; "
                "look at the records of that run"
            )


def session_value(values: Sequence[float], sign: int = 1) -> SessionValue:
    """Return the value of the runs of one session; ``sign`` -1 where lower is better."""
    amount = statistics.median(values)
    return SessionValue(
        amount=amount,
        value=sign * math.log(amount),
        samples=(tuple(math.log(value) for value in values),),
    )


def _ratio(over: Sequence[float], under: Sequence[float]) -> SessionValue:
    top, bottom = session_value(over), session_value(under)
    return SessionValue(
        amount=top.amount / bottom.amount,
        value=top.value - bottom.value,
        samples=top.samples + bottom.samples,
    )


def stored_throughput(session: Session) -> SessionValue:
    """Return the throughput of a stored session."""
    return session_value(session.runs)


def throughput(case: Case, measurement: Measurement, stored: Sequence[Session]) -> MetricValues:
    """Return the throughput, now and stored."""
    return MetricValues(
        now=session_value(measurement.throughputs),
        stored=tuple(stored_throughput(session) for session in stored),
        prior=priors.of_throughput(case),
    )


def of_stored_session(session: Session, stored: Sequence[Session], known: Prior) -> MetricValues:
    """Return the throughput of a stored session against others, as ``throughput`` has it."""
    now = stored_throughput(session)
    return MetricValues(
        now=now,
        stored=tuple(stored_throughput(one) for one in stored),
        prior=known,
    )


def stored_throughputs(stored: Sequence[Session]) -> list[SessionValue]:
    """Return the values of stored sessions, as ``throughput`` compares them."""
    return [stored_throughput(session) for session in stored]


def _over_same(measurement: Measurement, stored: Sequence[Session]) -> list[Session]:
    """Return the sessions whose speedup is over the same layout as that of now."""
    return [session for session in stored if session.reference == measurement.reference]


def parent(case: Case, measurement: Measurement, stored: Sequence[Session]) -> MetricValues | None:
    """Return the parent's throughput: not gated, but it may explain a lower speedup."""
    before = tuple(
        session_value(s.parent_runs) for s in _over_same(measurement, stored) if s.parent_runs
    )
    if not measurement.parent_throughputs or not before:
        return None
    return MetricValues(
        now=session_value(measurement.parent_throughputs),
        stored=before,
        prior=priors.of_throughput(case),
    )


def speedup_value(measurement: Measurement) -> SessionValue | None:
    """Return the speedup now: median of the case over the median of its parent."""
    if not measurement.parent_throughputs:
        return None
    return _ratio(measurement.throughputs, measurement.parent_throughputs)


def stored_speedup(session: Session) -> SessionValue | None:
    """Return the speedup of a stored session; None where it has none."""
    if session.parent_runs:
        return _ratio(session.runs, session.parent_runs)
    if session.speedup is None:
        return None
    check_rates([session.speedup], "a stored speedup")
    return SessionValue(
        amount=session.speedup,
        value=math.log(session.speedup),
        samples=session_value(session.runs).samples,
    )


def speedup(
    case: Case, measurement: Measurement, stored: Sequence[Session]
) -> MetricValues | None:
    """Return the speedup, where both sides have one."""
    now = speedup_value(measurement)
    same = _over_same(measurement, stored)
    before = tuple(found for session in same if (found := stored_speedup(session)) is not None)
    if now is None or not before:
        return None
    return MetricValues(now=now, stored=before, prior=priors.of_throughput(case))


def stored_memory(session: Session) -> SessionValue | None:
    """Return the peak memory of a stored session; None where it has none, or one of 0."""
    values = session.peak_memory_bytes
    return session_value(values, sign=-1) if values and min(values) > 0 else None


def peak_memory(
    case: Case, measurement: Measurement, stored: Sequence[Session]
) -> MetricValues | None:
    """Return the peak memory of the largest rank, where both sides know it."""
    now = [float(run.peak_memory_bytes or 0) for run in measurement.runs]
    before = tuple(found for session in stored if (found := stored_memory(session)) is not None)
    if not before or not min(now) > 0:
        return None
    return MetricValues(
        now=session_value(now, sign=-1),
        stored=before,
        prior=priors.MEMORY[case.layout.device],
        sign=-1,
    )
