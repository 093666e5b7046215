"""What a run tells of its scaling: each rank's own time, collectives, and the links."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.layout import DeviceKind
from pytest_dlperf.core.quantity import amount

if TYPE_CHECKING:
    from pytest_dlperf.core.run import RunSummary


#: A stretch begins and ends at a batch of iterations; more batches would only find noise.
_BATCHES: Final = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """Iterations ``first`` to ``last``, both counted from 0 at the begin of the run."""

    first: int
    last: int
    seconds: float
    #: Seconds of the whole window, and iterations in it.
    of_seconds: float
    of_iterations: int

    @property
    def share_of_time(self) -> float:
        """Return the share of the window's seconds that the stretch took."""
        return self.seconds / self.of_seconds

    def words(self, throughput: float, unit: str) -> str:
        """Return the stretch with its rate; ``throughput`` is that of the whole window."""
        count = self.last - self.first + 1
        work = throughput * self.of_seconds / self.of_iterations
        rate = work * count / self.seconds
        others = work * (self.of_iterations - count) / (self.of_seconds - self.seconds)
        which = (
            f"iteration {self.first}" if count == 1 else f"iterations {self.first} to {self.last}"
        )
        return (
            f"{which} ran at {amount(rate)} {unit}/s and took {self.share_of_time:.0%} of the "
            f"time, the others ran at {amount(others)} {unit}/s"
        )


def most_different(steps: Sequence[float], first: int) -> Stretch | None:
    """Return the stretch whose mean step differs most from that of the rest of the window.

    ``steps`` are the window's iterations in seconds, the first of them number ``first``. None
    for a window of fewer than two iterations, or whose steps are all equal.
    """
    count = len(steps)
    edges = sorted({round(i * count / _BATCHES) for i in range(_BATCHES + 1)})
    sums = [0.0]
    for step in steps:
        sums.append(sums[-1] + step)
    best, found = 1e-9 * sums[-1], None  # less is rounding
    for begin in edges:
        for end in edges:
            inside = end - begin
            if not 0 < inside < count:
                continue
            # The difference of the means over its standard error, but for a common factor.
            excess = sums[end] - sums[begin] - inside * sums[-1] / count
            score = abs(excess) / math.sqrt(inside * (count - inside))
            if score > best * (1 + 1e-9):
                best, found = score, (begin, end)
    if found is None:
        return None
    begin, end = found
    if begin == 0 and 2 * end >= count:
        begin, end = end, count  # the shorter side is the odd one, the later of two halves
    elif end == count and 2 * begin < count:
        begin, end = 0, begin
    return Stretch(
        first=first + begin,
        last=first + end - 1,
        seconds=sums[end] - sums[begin],
        of_seconds=sums[-1],
        of_iterations=count,
    )


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


@dataclass(frozen=True, kw_only=True, slots=True)
class RankScaling:
    """What a few iterations after the window told of one rank; ``docs/scaling.md``."""

    rank: int
    node: str
    #: Of an iteration as the training does it.
    step_seconds: float
    #: Of an iteration in which the rank waits for no other; None where that cannot be had.
    own_seconds: float | None = None
    #: What collectives add to an iteration, with the wait for slower ranks; by a timeline: how
    #: long they go on, without it.
    collective_seconds: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Scaling:
    """What the ranks of one run told of scaling, after its window."""

    #: How collectives were told apart; shares of two methods are not compared.
    method: str = ""
    #: What they are: ``all-reduce``, or ``collectives`` where the step calls others itself.
    collective: str = "all-reduce"
    ranks: tuple[RankScaling, ...] = ()
    #: What collectives add to an iteration of the slowest rank, which waits for nobody; None
    #: where it is not known.
    collectives_share: float | None = None
    #: Bytes of the message over seconds, of the slowest rank; by bytes. Sizes that a slow link
    #: leaves no time for are absent.
    all_reduce_gb_per_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredScaling:
    """What is stored of a session's scaling."""

    method: str = ""
    collective: str = "all-reduce"
    #: Of each run that knows it.
    collectives_shares: tuple[float, ...] = ()
    #: By which share the slowest rank's own time was above the others', of each run; and what it
    #: was taken from: see ``core/scaling.py``.
    skew_of: str = ""
    skews: tuple[float, ...] = ()
    #: Medians over the runs, by bytes.
    all_reduce_gb_per_s: Mapping[str, float] = field(default_factory=dict)
