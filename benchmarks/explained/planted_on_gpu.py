"""A training on one GPU with one planted cause of slowness, as ``PLANTED`` says.

On a GPU no stopwatch of the host can time what was planted: the host runs ahead. How much longer
the steps of the window are says it, which are as steady on a GPU as the profile is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from explained.planted import cause, endless, evaluated, stack

#: The kinds of causes; ``nothing`` is the training itself.
KINDS = (
    "nothing", "matrix-product", "sleep", "slow-data", "host-wait", "pageable-copy",
    "no-grad-dropped", "growing-allocation",
)  # fmt: skip
_SLEEP_S = 0.025
#: What the host does in each step where waits are planted: hidden, until it waits for the GPU.
_HOST_WORK_S = 0.006


def build(job: Any) -> Callable[[], torch.Tensor]:
    """Return the step; it takes 13.5 ms of an H100. On a CPU it is a tiny one, for a try."""
    planted, watched = cause(KINDS)
    on_gpu = job.device.type == "cuda"
    width, batch = (4096, job.batch_size_per_device) if on_gpu else (64, 16)
    device = {"device": job.device}
    model = job.data_parallel(stack(6, width).to(job.device))
    teacher = stack(2, width).to(job.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(batch, width, generator=job.generator(), **device)
    square = torch.randn(width, width, **device)
    image = torch.randn((16 if on_gpu else 1) * 2**20)
    slow_s = _SLEEP_S if planted == "slow-data" else 0.0
    batches = iter(endless(64, slow_s=slow_s))
    kept: list[torch.Tensor] = []
    size = (250 if on_gpu else 1) * 10**6
    after: dict[str, Callable[[torch.Tensor], object]] = {
        "matrix-product": lambda _: [torch.mm(square, square) for _ in range(2)],
        "sleep": lambda _: time.sleep(_SLEEP_S),
        "host-wait": lambda loss: loss.item(),
        "pageable-copy": lambda _: image.to(job.device),
        # Another size each time, so that the allocator asks the device for it
        "growing-allocation": lambda _: kept.append(torch.ones(size + len(kept), **device)),
    }
    plant = after.get(planted, lambda _: None)

    def step() -> torch.Tensor:
        if watched == "slow-data":
            next(batches)
        if watched == "host-wait":
            _work(_HOST_WORK_S)
        target = evaluated(teacher, x, None, drops_no_grad=planted == "no-grad-dropped")
        loss = (model(x) - target).square().mean()
        job.backward(loss, optimizer)
        plant(loss)
        return loss

    return step


def _work(seconds: float) -> None:
    end_s = time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        pass
