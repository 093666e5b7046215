"""How long the canary's work is repeated; the same for every framework.

What it measures are rates of fixed work, so that canaries of another length compare with these.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_FEWEST: Final = 5


class CanaryTime(NamedTuple):
    """Seconds of a canary's parts, and the number of its all-reduces."""

    matmul_s: float
    copy_s: float
    all_reduces: int


_GPU: Final = CanaryTime(matmul_s=0.12, copy_s=0.12, all_reduces=20)
#: Shorter: a product takes a millisecond. What a copy and an all-reduce tell on a CPU is known
#: to 75 % at best (``judge/canary.py``), however often they are repeated.
_CPU: Final = CanaryTime(matmul_s=0.05, copy_s=0.02, all_reduces=7)


def canary_time(*, on_gpu: bool) -> CanaryTime:
    """Return how long a canary takes on a device of this kind."""
    return _GPU if on_gpu else _CPU


def median_s(work: Callable[[], object], *, seconds: float) -> float:
    """Return the median seconds of ``work``, which returns when it is done.

    Once to warm up, then for ``seconds``, and 5 times at least.
    """
    work()
    times_s: list[float] = []
    end_s = time.perf_counter() + seconds
    while len(times_s) < _FEWEST or time.perf_counter() < end_s:
        times_s.append(_once_s(work))
    return statistics.median(times_s)


def median_of_s(work: Callable[[], object], *, repetitions: int) -> float:
    """Return the same of so many repetitions: ranks of a collective must agree on how often."""
    work()
    return statistics.median(_once_s(work) for _ in range(repetitions))


def _once_s(work: Callable[[], object]) -> float:
    begin_s = time.perf_counter()
    work()
    return time.perf_counter() - begin_s
