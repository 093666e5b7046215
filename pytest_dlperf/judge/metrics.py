"""The metrics of every case (throughput, speedup, peak memory): now, and in stored sessions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.verdict import Prior, Rule
from pytest_dlperf.judge.stats import priors
from pytest_dlperf.judge.stats.contrast import Contrast, SessionValue, median_cost
from pytest_dlperf.judge.stats.stored import contrast

_OfNode = TypeVar("_OfNode", Session, SessionValue)
#: Growth of the peak memory below this never fails a case.
MEMORY_FLOOR: Final = 0.02
#: With this many stored sessions of its node, a session is compared with those alone.
ENOUGH_ON_NODE: Final = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricValues:
    """Both sides of one comparison, and the prior for its noise."""

    now: SessionValue
    stored: tuple[SessionValue, ...]
    prior: Prior
    #: ``SessionValue.share`` of this side once all of the protocol's runs are measured.
    planned: float
    #: 1 where higher is better, -1 where lower is.
    sign: int = 1
    #: Where set, a certain change for the worse beyond it fails at any tolerance, and one below it
    #: never fails.
    floor: float | None = None

    def contrast(self) -> Contrast:
        """Return the contrast of both sides."""
        return contrast([self.now], self.stored, self.prior)

    @property
    def new_node(self) -> str:
        """The node of this side where sessions of other nodes alone are stored; else empty."""
        stored = {one.node for one in self.stored if one.node}
        return self.now.node if stored and self.now.node not in stored else ""

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


def session_value(values: Sequence[float], sign: int = 1, node: str = "") -> SessionValue:
    """Return the value of the runs of one session; ``sign`` -1 where lower is better."""
    amount = statistics.median(values)
    return SessionValue(
        amount=amount,
        value=sign * math.log(amount),
        samples=(tuple(math.log(value) for value in values),),
        node=node,
    )


def _node(measurement: Measurement) -> str:
    """Return the host of the first rank; empty if no run knows it."""
    return next((run.ranks[0].node for run in measurement.runs if run.ranks), "")


def _ratio(over: Sequence[float], under: Sequence[float]) -> SessionValue:
    top, bottom = session_value(over), session_value(under)
    return SessionValue(
        amount=top.amount / bottom.amount,
        value=top.value - bottom.value,
        samples=top.samples + bottom.samples,
    )


def stored_throughput(session: Session) -> SessionValue:
    """Return the throughput of a stored session."""
    return session_value(session.runs, node=session.node)


def comparable(node: str, values: Sequence[_OfNode]) -> tuple[_OfNode, ...]:
    """Return the sessions of ``node``, or their values, if there are enough; otherwise all."""
    same = tuple(one for one in values if one.node == node)
    return same if node and len(same) >= ENOUGH_ON_NODE else tuple(values)


def throughput(
    case: Case, measurement: Measurement, stored: Sequence[Session], rule: Rule
) -> MetricValues:
    """Return the throughput, now and stored."""
    node = _node(measurement)
    stored = comparable(node, stored)
    return MetricValues(
        now=session_value(measurement.throughputs, node=node),
        stored=tuple(stored_throughput(session) for session in stored),
        prior=priors.of_throughput(case, rule),
        planned=median_cost(case.protocol.runs) / case.protocol.runs,
    )


def of_stored_session(session: Session, stored: Sequence[Session], known: Prior) -> MetricValues:
    """Return the throughput of a stored session against others, as ``throughput`` has it."""
    stored = comparable(session.node, stored)
    now = stored_throughput(session)
    return MetricValues(
        now=now,
        stored=tuple(stored_throughput(one) for one in stored),
        prior=known,
        planned=now.share,
    )


def stored_throughputs(stored: Sequence[Session]) -> list[SessionValue]:
    """Return the values of stored sessions, as ``throughput`` compares them.

    Those of the last one's node, where there are enough.
    """
    return [stored_throughput(session) for session in comparable(stored[-1].node, stored)]


def _over_same(measurement: Measurement, stored: Sequence[Session]) -> list[Session]:
    """Return the sessions whose speedup is over the same layout as that of now."""
    return [session for session in stored if session.reference == measurement.reference]


def parent(
    case: Case, measurement: Measurement, stored: Sequence[Session], rule: Rule
) -> MetricValues | None:
    """Return the parent's throughput: not gated, but it may explain a lower speedup."""
    before = tuple(
        session_value(s.parent_runs) for s in _over_same(measurement, stored) if s.parent_runs
    )
    if not measurement.parent_throughputs or not before:
        return None
    return MetricValues(
        now=session_value(measurement.parent_throughputs),
        stored=before,
        prior=priors.of_throughput(case, rule),
        planned=median_cost(case.protocol.runs) / case.protocol.runs,
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
    case: Case, measurement: Measurement, stored: Sequence[Session], rule: Rule
) -> MetricValues | None:
    """Return the speedup, where both sides have one."""
    now = speedup_value(measurement)
    same = _over_same(measurement, stored)
    before = tuple(found for session in same if (found := stored_speedup(session)) is not None)
    if now is None or not before:
        return None
    return MetricValues(
        now=now, stored=before, prior=priors.of_throughput(case, rule), planned=now.share
    )


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
        planned=median_cost(case.protocol.runs) / case.protocol.runs,
        sign=-1,
        floor=MEMORY_FLOOR,
    )
