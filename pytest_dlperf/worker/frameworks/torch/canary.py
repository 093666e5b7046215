"""The canary: fixed work that tells whether the machine changed, apart from any workload.

A matrix product, a memory copy and, where there are ranks, an all-reduce; all ranks at once,
as in training, each a fraction of a second. The median of the repetitions is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from pytest_dlperf.worker.frameworks.canary_time import canary_time, median_of_s, median_s

if TYPE_CHECKING:
    from collections.abc import Callable


def measure(device: torch.device) -> dict[str, float | None]:
    """Return ``matmul_gflop_per_s``, ``copy_gb_per_s``, ``all_reduce_gb_per_s`` of this rank.

    float32 throughout; the last is None on one rank: bytes of the tensor over seconds.
    """
    on_gpu = device.type == "cuda"
    takes = canary_time(on_gpu=on_gpu)
    side = 4096 if on_gpu else 384
    copied = 2**26 if on_gpu else 2**22
    with torch.no_grad(), torch.autocast(device.type, enabled=False):
        left, right = torch.ones(side, side, device=device), torch.ones(side, side, device=device)
        product = torch.empty_like(left)
        matmul_s = median_s(
            _done(lambda: torch.mm(left, right, out=product), device), seconds=takes.matmul_s
        )
        source = torch.ones(copied, device=device)
        target = torch.empty_like(source)
        copy_s = median_s(_done(lambda: target.copy_(source), device), seconds=takes.copy_s)
        all_reduce_s = None
        if dist.is_initialized():
            message = torch.zeros(2**20, device=device)
            all_reduce_s = median_of_s(
                _done(lambda: dist.all_reduce(message), device), repetitions=takes.all_reduces
            )
    return {
        "matmul_gflop_per_s": 2 * side**3 / matmul_s / 1e9,
        "copy_gb_per_s": 2 * 4 * copied / copy_s / 1e9,
        "all_reduce_gb_per_s": None if all_reduce_s is None else 4 * 2**20 / all_reduce_s / 1e9,
    }


def _done(work: Callable[[], object], device: torch.device) -> Callable[[], None]:
    """Return ``work`` with a wait for the device after it."""

    def done() -> None:
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    return done
