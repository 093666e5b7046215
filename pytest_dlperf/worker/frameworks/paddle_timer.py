"""Laps of a Paddle training, and work of a given length, on the device that trains."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import paddle

if TYPE_CHECKING:
    from collections.abc import Callable


class HostTimer:
    """Laps on the host's clock; on a CPU a step is over when it returns."""

    def __init__(self) -> None:
        self._laps: list[tuple[float, float]] = []

    def start(self) -> None:
        """Begin a lap."""
        self._wall_s, self._cpu_s = time.perf_counter(), time.process_time()

    def lap(self) -> None:
        """End the lap, and begin the next."""
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        self._laps.append((wall_s - self._wall_s, cpu_s - self._cpu_s))
        self._wall_s, self._cpu_s = wall_s, cpu_s

    def read(self) -> list[tuple[float, float]]:
        """Return wall and CPU seconds of every lap."""
        return self._laps


class CudaTimer:
    """Laps on the GPU's clock: events in the stream, read when all is done."""

    def __init__(self) -> None:
        self._laps: list[tuple[Any, Any, float]] = []

    def start(self) -> None:
        """Begin a lap."""
        self._event, self._cpu_s = _event(), time.process_time()

    def lap(self) -> None:
        """End the lap, and begin the next."""
        event, cpu_s = _event(), time.process_time()
        self._laps.append((self._event, event, cpu_s - self._cpu_s))
        self._event, self._cpu_s = event, cpu_s

    def read(self) -> list[tuple[float, float]]:
        """Return wall and CPU seconds of every lap; waits for the GPU."""
        paddle.device.synchronize()
        return [(begin.elapsed_time(end) / 1000, cpu_s) for begin, end, cpu_s in self._laps]


def _event() -> Any:
    event = paddle.device.Event(enable_timing=True)
    event.record()
    return event


def spin(seconds: float) -> None:
    """Keep the CPU busy."""
    end_s = time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        pass


def gpu_delay(seconds: float) -> Callable[[float], None]:
    """Return a function that keeps the GPU busy for about ``seconds``: Paddle has no sleep."""
    square = paddle.ones([1024, 1024])
    timer = CudaTimer()
    for _ in range(2):  # the first lap is not timed: it sets the product up
        timer.start()
        for _ in range(100):
            paddle.matmul(square, square)
    timer.lap()
    products = round(seconds / (timer.read()[0][0] / 100))

    def delay(_step_s: float) -> None:
        for _ in range(products):
            paddle.matmul(square, square)

    return delay
