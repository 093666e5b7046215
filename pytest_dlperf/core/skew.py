"""How far ranks differ in what they do themselves; arithmetic on the runs of one case."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.scaling import StoredScaling

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_dlperf.core.layout import DeviceKind
    from pytest_dlperf.core.run import RunSummary

#: What a rank's time is taken from: steps in which it waits for nobody, or, on CPUs, the CPU
#: seconds of the measured window.
OWN_STEPS: Final = "own steps"
CPU_SECONDS: Final = "CPU seconds"
_DIGITS: Final = 6


def own_seconds(
    runs: Sequence[RunSummary], device: DeviceKind, *, fewest: int = 1
) -> tuple[str, list[dict[int, float]]]:
    """Return each rank's own seconds in the runs that tell them, and what they were taken from.

    Not every run samples steps: where fewer than ``fewest`` did, the CPU seconds of all runs tell
    more. Nothing where both are unknown. The wall time of the window tells nothing: in
    synchronous training ranks wait for each other.
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
    """Return what is stored of the scaling of ``runs``, to six digits; None if nothing is known.

    A share of 1 would be a rank that does nothing: it is kept all the same.
    """
    known = [run.scaling for run in runs if run.scaling is not None]
    if not known:
        return None
    method = known[0].method
    shares = [
        one.collectives_share
        for one in known
        if one.method == method and one.collectives_share is not None
    ]
    basis, told = own_seconds(runs, device)
    return StoredScaling(
        method=method,
        collective=known[0].collective,
        collectives_shares=_digits(shares),
        skew_of=basis,
        skews=_digits(math.expm1(max(skews(found).values())) for found in told),
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
