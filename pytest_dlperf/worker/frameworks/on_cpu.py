"""Timers, a delay and the peak of memory on the host, for every framework."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from typing import Final

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
