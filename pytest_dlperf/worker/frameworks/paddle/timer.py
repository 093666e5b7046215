"""Laps of a Paddle training on a GPU, and work of a given length there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddle

from pytest_dlperf.worker.frameworks import on_cpu
from pytest_dlperf.worker.frameworks.base import EventTimer, Timer

_PRODUCTS = 100


def events_tell_time() -> bool:
    """Return whether the time between two events can be read; asked once, on the GPU.

    Found by trying: in Paddle 2.6 ``elapsed_time`` is there, and is always 0.
    """
    square = paddle.ones([256, 256])
    begin = _event()
    paddle.matmul(square, square)
    end = _event()
    paddle.device.synchronize()
    try:
        return bool(begin.elapsed_time(end) > 0)
    except (AttributeError, TypeError):
        return False  # an event of some version that was never asked for its time


def gpu_timer(*, events: bool) -> Timer:
    """Return a timer on ``events``, else on the host's clock, which waits at each lap."""
    if events:
        return EventTimer(_event, paddle.device.synchronize)
    return on_cpu.WaitingTimer(paddle.device.synchronize)


def _event() -> Any:
    event = paddle.device.Event(enable_timing=True)
    event.record()
    return event


def gpu_delay(seconds: float, *, events: bool) -> Callable[[float], None]:
    """Return a function that keeps the GPU busy for about ``seconds``: Paddle has no sleep."""
    square = paddle.ones([1024, 1024])
    timer = gpu_timer(events=events)
    for _ in range(2):  # the first time is not timed: it sets the product up
        timer.start()
        for _ in range(_PRODUCTS):
            paddle.matmul(square, square)
    timer.lap()
    products = round(seconds / (timer.read()[0][0] / _PRODUCTS))

    def delay(_step_s: float) -> None:
        for _ in range(products):
            paddle.matmul(square, square)

    return delay
