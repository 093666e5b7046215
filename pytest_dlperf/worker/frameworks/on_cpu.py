"""Timers, a delay and the peak of memory on the host, for every framework."""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Final, NamedTuple

# How long the canary's work is repeated; the same for every framework.
#
# What it measures are rates of fixed work, so that canaries of another length compare with these.

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


#: The clock that times laps, as ``facts()`` reports it: the device's own, or the host's.
DEVICE_EVENTS: Final = "device events"
HOST_CLOCK: Final = "host clock"


class CpuTimer:
    """Laps on the host's clock; on a CPU a step is over when it returns."""

    def __init__(self) -> None:
        self._laps: list[tuple[float, float]] = []

    def start(self) -> None:
        """Begin a lap here."""
        self._wall_s, self._cpu_s = time.perf_counter(), time.process_time()

    def lap(self) -> None:
        """End the lap, and begin the next."""
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        self._laps.append((wall_s - self._wall_s, cpu_s - self._cpu_s))
        self._wall_s, self._cpu_s = wall_s, cpu_s

    def done(self) -> int:
        """Return the number of laps: each ended with its work."""
        return len(self._laps)

    def finish(self, each: Callable[[int], None]) -> None:
        """Wait for nothing."""

    def read(self) -> list[tuple[float, float]]:
        """Return wall and CPU seconds of every lap."""
        return self._laps


class WaitingTimer(CpuTimer):
    """Laps on the host's clock that end when a GPU is done, where events tell no time.

    Each step then waits for the one before, so that nothing is queued ahead.
    """

    def __init__(self, wait: Callable[[], None]) -> None:
        super().__init__()
        self._wait = wait

    def start(self) -> None:
        """Begin a lap, once the device is idle."""
        self._wait()
        super().start()

    def lap(self) -> None:
        """End the lap when the device is done, and begin the next."""
        self._wait()
        super().lap()


def spin(seconds: float) -> None:
    """Keep this CPU busy for so long."""
    end_s = time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        pass


def peak_resident_set_bytes() -> int:
    """Return the largest resident set that this process ever had."""
    # getrusage(2): kilobytes on Linux, bytes on macOS.
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
