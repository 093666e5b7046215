"""The canary: fixed work that tells whether the machine changed, apart from any workload.

A matrix product, a memory copy and, where there are ranks, an all-reduce; all ranks at once,
as in training, each a fraction of a second. The median of the repetitions is taken.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from collections.abc import Callable

_SECONDS = 0.12
_ALL_REDUCES = 20


def measure(device: torch.device) -> dict[str, float | None]:
    """Return ``matmul_gflop_per_s``, ``copy_gb_per_s``, ``all_reduce_gb_per_s`` of this rank.

    float32 throughout; the last is None on one rank: bytes of the tensor over seconds.
    """
    on_gpu = device.type == "cuda"
    side = 4096 if on_gpu else 384
    copied = 2**26 if on_gpu else 2**22
    with torch.no_grad(), torch.autocast(device.type, enabled=False):
        left, right = torch.ones(side, side, device=device), torch.ones(side, side, device=device)
        product = torch.empty_like(left)
        matmul_s = _median_s(lambda: torch.mm(left, right, out=product), device)
        source = torch.ones(copied, device=device)
        target = torch.empty_like(source)
        copy_s = _median_s(lambda: target.copy_(source), device)
        all_reduce_s = None
        if dist.is_initialized():
            message = torch.zeros(2**20, device=device)
            all_reduce_s = _median_s(lambda: dist.all_reduce(message), device, _ALL_REDUCES)
    return {
        "matmul_gflop_per_s": 2 * side**3 / matmul_s / 1e9,
        "copy_gb_per_s": 2 * 4 * copied / copy_s / 1e9,
        "all_reduce_gb_per_s": None if all_reduce_s is None else 4 * 2**20 / all_reduce_s / 1e9,
    }


def _median_s(
    work: Callable[[], object], device: torch.device, repetitions: int | None = None
) -> float:
    """Return the median seconds of ``work``; ranks of a collective must agree on how often."""
    work()
    _wait(device)
    times_s: list[float] = []
    end_s = time.perf_counter() + _SECONDS
    while len(times_s) < (repetitions or 5) or (
        repetitions is None and time.perf_counter() < end_s
    ):
        begin_s = time.perf_counter()
        work()
        _wait(device)
        times_s.append(time.perf_counter() - begin_s)
    return statistics.median(times_s)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
