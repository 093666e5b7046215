"""Scaling of a run: each rank's own time, the time in collectives, the speed of the links."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.layout import DeviceKind

if TYPE_CHECKING:
    from pytest_dlperf.core.run import RunSummary

#: Source of a rank's own time: steps without waiting for other ranks, or, on CPUs, the CPU
#: seconds of the measured window.
OWN_STEPS: Final = "own steps"
CPU_SECONDS: Final = "CPU seconds"
#: Digits that are stored.
_DIGITS: Final = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class RankScaling:
    """One rank in a few sampled iterations after the window; ``docs/scaling.md``."""

    rank: int
    node: str
    #: Seconds of an ordinary iteration.
    step_seconds: float
    #: Seconds of an iteration in which the rank waits for no other; None where unknown.
    own_seconds: float | None = None
    #: Seconds that collectives add to an iteration, with the wait for slower ranks; from a
    #: timeline their duration, without the wait.
    collective_seconds: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Scaling:
    """The scaling of one run, sampled on its ranks after the window."""

    #: How collectives were measured; shares of two methods are not compared.
    method: str = ""
    #: Their kind: ``all-reduce``, or ``collectives`` where the step calls others too.
    collective: str = "all-reduce"
    ranks: tuple[RankScaling, ...] = ()
    #: Share of an iteration that collectives add on the slowest rank, which does not wait for
    #: others; None where it is unknown.
    collectives_share: float | None = None
    #: Bytes of the message over seconds, of the slowest rank; keyed by bytes. Sizes for which a
    #: slow link left no time are absent.
    all_reduce_gb_per_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredScaling:
    """The scaling of a session, as it is stored."""

    method: str = ""
    collective: str = "all-reduce"
    #: One of each run that has it.
    collectives_shares: tuple[float, ...] = ()
    #: Share by which the slowest rank's own time exceeded that of the others, of each run, and its
    #: source: ``OWN_STEPS`` or ``CPU_SECONDS``.
    skew_of: str = ""
    skews: tuple[float, ...] = ()
    #: Medians over the runs, by bytes.
    all_reduce_gb_per_s: Mapping[str, float] = field(default_factory=dict)


def own_seconds(
    runs: Sequence[RunSummary], device: DeviceKind, *, fewest: int = 1
) -> tuple[str, list[dict[int, float]]]:
    """Return the source of the ranks' own seconds, and these seconds for each run that has them.

    Not every run samples steps: where fewer than ``fewest`` did, the CPU seconds of all runs are
    used. Empty where both are unknown. The wall time of the window is of no use: in synchronous
    training ranks wait for each other.
    """
    sampled = [own for run in runs if (own := _own_steps(run))]
    if len(sampled) >= fewest:
        return OWN_STEPS, sampled
    spent = [cpu for run in runs if (cpu := _cpu_seconds(run))] if device == "cpu" else []
    if spent:
        return CPU_SECONDS, spent
    return (OWN_STEPS, sampled) if sampled else ("", [])


def _own_steps(run: RunSummary) -> dict[int, float]:
    sampled = run.scaling.ranks if run.scaling else ()
    own = {
        rank.rank: rank.own_seconds
        for rank in sampled
        if rank.own_seconds is not None and rank.own_seconds > 0
    }
    return own if len(own) > 1 and len(own) == len(run.ranks or sampled) else {}


def _cpu_seconds(run: RunSummary) -> dict[int, float]:
    cpu = {rank.rank: rank.cpu_seconds for rank in run.ranks if rank.cpu_seconds}
    return cpu if len(cpu) > 1 and len(cpu) == len(run.ranks) else {}


def skews(seconds: Mapping[int, float]) -> dict[int, float]:
    """Return the log of each rank's seconds over the median of the others'."""
    return {
        rank: math.log(own / statistics.median(s for r, s in seconds.items() if r != rank))
        for rank, own in seconds.items()
    }


def stored_scaling(runs: Sequence[RunSummary], device: DeviceKind) -> StoredScaling | None:
    """Return the scaling of ``runs`` as it is stored, to six digits; None if it is unknown."""
    known = [run.scaling for run in runs if run.scaling is not None]
    if not known:
        return None
    method = known[0].method
    shares = [
        one.collectives_share
        for one in known
        if one.method == method and one.collectives_share is not None
    ]
    basis, seconds = own_seconds(runs, device)
    return StoredScaling(
        method=method,
        collective=known[0].collective,
        collectives_shares=_digits(shares),
        skew_of=basis,
        skews=_digits(math.expm1(max(skews(found).values())) for found in seconds),
        all_reduce_gb_per_s=_medians([one.all_reduce_gb_per_s for one in known]),
    )


def _medians(rates: Sequence[Mapping[str, float]]) -> dict[str, float]:
    sizes = sorted({size for one in rates for size in one}, key=int)
    return {
        size: _digits([statistics.median(one[size] for one in rates if size in one)])[0]
        for size in sizes
    }


def _digits(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(f"{value:.{_DIGITS}g}") for value in values)
