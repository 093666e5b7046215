"""The canary in Paddle: fixed work that tells whether the machine changed.

The work of ``torch_canary.py``: a matrix product, a memory copy and, where there are ranks, an
all-reduce; all ranks at once. The median of the repetitions is taken.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import paddle
import paddle.distributed as dist

if TYPE_CHECKING:
    from collections.abc import Callable

_SECONDS = 0.12
_ALL_REDUCES = 20


def measure(*, on_gpu: bool) -> dict[str, float | None]:
    """Return ``matmul_gflop_per_s``, ``copy_gb_per_s``, ``all_reduce_gb_per_s`` of this rank.

    float32 throughout; the last is None on one rank: bytes of the tensor over seconds.
    """
    side = 4096 if on_gpu else 384
    copied = 2**26 if on_gpu else 2**22
    wait = paddle.device.synchronize if on_gpu else _nothing
    with paddle.no_grad():
        left, right = paddle.ones([side, side]), paddle.ones([side, side])
        matmul_s = _median_s(lambda: paddle.matmul(left, right), wait)
        source = paddle.ones([copied])
        copy_s = _median_s(source.clone, wait)
        all_reduce_s = None
        if dist.is_initialized():
            message = paddle.zeros([2**20])
            all_reduce_s = _median_s(lambda: dist.all_reduce(message), wait, _ALL_REDUCES)
    return {
        "matmul_gflop_per_s": 2 * side**3 / matmul_s / 1e9,
        "copy_gb_per_s": 2 * 4 * copied / copy_s / 1e9,
        "all_reduce_gb_per_s": None if all_reduce_s is None else 4 * 2**20 / all_reduce_s / 1e9,
    }


def _median_s(
    work: Callable[[], object], wait: Callable[[], None], repetitions: int | None = None
) -> float:
    """Return the median seconds of ``work``; ranks of a collective must agree on how often."""
    work()
    wait()
    times_s: list[float] = []
    end_s = time.perf_counter() + _SECONDS
    while len(times_s) < (repetitions or 5) or (
        repetitions is None and time.perf_counter() < end_s
    ):
        begin_s = time.perf_counter()
        work()
        wait()
        times_s.append(time.perf_counter() - begin_s)
    return statistics.median(times_s)


def _nothing() -> None:
    """Wait for a CPU, whose work is done when it returns."""
