"""The canary in Paddle: fixed work that tells whether the machine changed.

The work of ``torch_canary.py``: a matrix product, a memory copy and, where there are ranks, an
all-reduce; all ranks at once. The median of the repetitions is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import paddle
import paddle.distributed as dist

from pytest_dlperf.worker.frameworks.canary_time import canary_time, median_of_s, median_s

if TYPE_CHECKING:
    from collections.abc import Callable


def measure(*, on_gpu: bool) -> dict[str, float | None]:
    """Return ``matmul_gflop_per_s``, ``copy_gb_per_s``, ``all_reduce_gb_per_s`` of this rank.

    float32 throughout; the last is None on one rank: bytes of the tensor over seconds.
    """
    side = 4096 if on_gpu else 384
    copied = 2**26 if on_gpu else 2**22
    takes = canary_time(on_gpu=on_gpu)
    with paddle.no_grad():
        left, right = paddle.ones([side, side]), paddle.ones([side, side])
        matmul_s = median_s(
            _done(lambda: paddle.matmul(left, right), on_gpu=on_gpu), seconds=takes.matmul_s
        )
        source = paddle.ones([copied])
        copy_s = median_s(_done(source.clone, on_gpu=on_gpu), seconds=takes.copy_s)
        all_reduce_s = None
        if dist.is_initialized():
            message = paddle.zeros([2**20])
            all_reduce_s = median_of_s(
                _done(lambda: dist.all_reduce(message), on_gpu=on_gpu),
                repetitions=takes.all_reduces,
            )
    return {
        "matmul_gflop_per_s": 2 * side**3 / matmul_s / 1e9,
        "copy_gb_per_s": 2 * 4 * copied / copy_s / 1e9,
        "all_reduce_gb_per_s": None if all_reduce_s is None else 4 * 2**20 / all_reduce_s / 1e9,
    }


def _done(work: Callable[[], object], *, on_gpu: bool) -> Callable[[], None]:
    """Return ``work`` with a wait for the GPU after it; on a CPU it is done when it returns."""

    def done() -> None:
        work()
        if on_gpu:
            paddle.device.synchronize()

    return done
