"""A small training with one planted cause of slowness, and a stopwatch around it.

``PLANTED`` names the cause; without it the same places of the step are timed. Each rank appends
one line a step to ``STOPWATCH``: seconds of the step, and of the planted work.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

#: The kinds of causes; ``nothing`` is the training itself.
KINDS = (
    "nothing", "matrix-product", "sleep", "slow-data", "small-bucket", "no-grad-dropped",
    "graph-break", "growing-allocation",
)  # fmt: skip
_WIDTH = 384
_SLEEP_S = 0.025


def stack(layers: int, width: int) -> torch.nn.Sequential:
    """Return ``layers`` linear layers of one width, with a Tanh after each."""
    linears = [torch.nn.Linear(width, width) for _ in range(layers)]
    return torch.nn.Sequential(*(part for one in linears for part in (one, torch.nn.Tanh())))


class Samples(Dataset):  # type: ignore[misc]  # torch is Any here
    """Random samples; a batch of slow ones takes ``slow_s`` longer."""

    def __init__(self, batch: int, *, slow_s: float) -> None:
        self._wait_s = slow_s / batch
        self._samples = torch.randn(batch * 1000, 4)

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> torch.Tensor:
        if self._wait_s:
            time.sleep(self._wait_s)
        return self._samples[index]


class Stopwatch:
    """Sums what one step spends in places."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        """Time the block."""
        begin_s = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - begin_s


def cause(kinds: Sequence[str]) -> tuple[str, str]:
    """Return what is planted, and the cause whose places are timed; ValueError: none of them."""
    planted = os.environ.get("PLANTED", "nothing")
    if planted not in kinds:
        raise ValueError(f"PLANTED={planted}: none of {', '.join(kinds)}")
    return planted, os.environ.get("WATCHED", planted)


def build(job: Any) -> Callable[[], torch.Tensor]:
    """Return the step; the cause is planted as ``PLANTED`` says."""
    planted, watched = cause(KINDS)
    file = Path(f"{os.environ['STOPWATCH']}.{job.rank}").open("w", encoding="utf-8")  # noqa: SIM115
    stopwatch = Stopwatch()
    nowhere = contextlib.nullcontext
    options = {"bucket_cap_mb": 0.001} if planted == "small-bucket" else {}
    # Many small layers, so that a bucket can be small
    layers, width = (24, _WIDTH // 2) if watched == "small-bucket" else (6, _WIDTH)
    model = job.data_parallel(stack(layers, width), **options)
    # Each rank has its own: its evaluation is the student's target
    teacher = stack(6, width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(job.batch_size_per_device, width, generator=job.generator())
    square = torch.randn(_WIDTH, _WIDTH)
    image = torch.randn(2000, _WIDTH)
    slow_s = _SLEEP_S if planted == "slow-data" else 0.0
    batches = iter(endless(job.batch_size_per_device, slow_s=slow_s))
    # Compiling takes most of a launch, and is left out where nothing is timed of it
    chain = _whole
    if watched == "graph-break":
        chain = torch.compile(_broken if planted == "graph-break" else _whole)
    kept: list[torch.Tensor] = []
    if watched == "small-bucket":
        _time_averaging(model.module[0], optimizer, stopwatch)

    def step() -> torch.Tensor:
        stopwatch.seconds = 0.0
        begin_s = time.perf_counter()
        with stopwatch() if watched == "slow-data" else nowhere():
            next(batches)
        target = evaluated(teacher, x, stopwatch, drops_no_grad=planted == "no-grad-dropped")
        loss = (model(x) - target).square().mean()
        job.backward(loss, optimizer)
        with stopwatch() if watched == "matrix-product" else nowhere():
            for _ in range(10 if planted == "matrix-product" else 0):
                torch.mm(square, square)
        with stopwatch() if watched == "sleep" else nowhere():
            if planted == "sleep":
                time.sleep(_SLEEP_S)
        if watched == "graph-break":
            with stopwatch():
                chain(image)
        with stopwatch() if watched == "growing-allocation" else nowhere():
            if planted == "growing-allocation":
                kept.append(torch.ones(4_000_000 + 100_000 * len(kept)))
        file.write(f"{time.perf_counter() - begin_s} {stopwatch.seconds}\n")
        file.flush()
        return loss

    return step


def evaluated(
    teacher: torch.nn.Module, x: torch.Tensor, stopwatch: Stopwatch | None, *, drops_no_grad: bool
) -> torch.Tensor:
    """Return what ``teacher`` says of ``x``; ``stopwatch`` times its backward, if it has one."""
    if not drops_no_grad:
        with torch.no_grad():
            return teacher(x)
    begun_s = []
    target = teacher(x)
    teacher.zero_grad(set_to_none=True)
    if stopwatch is None:
        return target
    target.grad_fn.register_prehook(lambda _: begun_s.append(time.perf_counter()))

    def end(_parameter: torch.Tensor) -> None:
        stopwatch.seconds += time.perf_counter() - begun_s[0]
        handle.remove()

    # Of the first layer, whose gradients are the last
    handle = teacher[0].weight.register_post_accumulate_grad_hook(end)
    return target


def _time_averaging(
    first_layer: torch.nn.Module, optimizer: torch.optim.Optimizer, stopwatch: Stopwatch
) -> None:
    """Time what is left of the averaging of gradients when all of them are computed.

    What goes on beside the computation is hidden; that it makes this slower, as it takes a core
    for a while, is no communication.
    """
    begun_s = [0.0]

    def begin(_parameter: torch.Tensor) -> None:
        begun_s[0] = time.perf_counter()

    def end(*_: Any) -> None:
        stopwatch.seconds += time.perf_counter() - begun_s[0]

    # Of the first layer, whose gradients are the last
    for parameter in first_layer.parameters():
        parameter.register_post_accumulate_grad_hook(begin)
    optimizer.register_step_pre_hook(end)


def endless(batch: int, *, slow_s: float) -> Iterator[torch.Tensor]:
    """Yield batches, each of which takes ``slow_s`` longer than a fast one."""
    while True:
        yield from DataLoader(Samples(batch, slow_s=slow_s), batch_size=batch)


_ROUNDS = 24


def _whole(x: torch.Tensor) -> torch.Tensor:
    for _ in range(_ROUNDS):
        x = x * 1.01 + 0.1
    return x


def _broken(x: torch.Tensor) -> torch.Tensor:
    for _ in range(_ROUNDS):
        x = x * 1.01 + 0.1
        torch._dynamo.graph_break()
    return x
