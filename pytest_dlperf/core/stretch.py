"""Find the part of a window that changed: the contiguous iterations whose speed differs most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pytest_dlperf.core.quantity import amount

#: A stretch begins and ends at the edge of a batch of iterations; more batches would find noise.
_BATCHES: Final = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """Iterations ``first`` to ``last``, both counted from 0 at the beginning of the run."""

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
        rest = work * (self.of_iterations - count) / (self.of_seconds - self.seconds)
        which = (
            f"iteration {self.first}" if count == 1 else f"iterations {self.first} to {self.last}"
        )
        return (
            f"{which} ran at {amount(rate)} {unit}/s and took {self.share_of_time:.0%} of the "
            f"time, the others ran at {amount(rest)} {unit}/s"
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
    best, edges_of_best = 1e-9 * sums[-1], None  # less is rounding
    for begin in edges:
        for end in edges:
            inside = end - begin
            if not 0 < inside < count:
                continue
            # The difference of the means over its standard error, up to a common factor.
            excess = sums[end] - sums[begin] - inside * sums[-1] / count
            score = abs(excess) / math.sqrt(inside * (count - inside))
            if score > best * (1 + 1e-9):
                best, edges_of_best = score, (begin, end)
    if edges_of_best is None:
        return None
    begin, end = edges_of_best
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
