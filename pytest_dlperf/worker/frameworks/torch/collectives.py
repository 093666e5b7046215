"""Collectives of a PyTorch training: what they cost a step, and an all-reduce of any size."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from pytest_dlperf.core.wire_records import CollectivesRecord
from pytest_dlperf.worker.frameworks import direct_calls
from pytest_dlperf.worker.frameworks.base import Framework
from pytest_dlperf.worker.frameworks.direct_calls import DirectCalls

#: Functions of ``torch.distributed`` that a step may call itself; synchronised batch
#: normalisation does.
_DIRECT: Final = (
    "all_gather",
    "all_gather_into_tensor",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
)


def sample(
    framework: Framework, step: Callable[[], Any], modules: Iterable[torch.nn.Module]
) -> CollectivesRecord:
    """Return what steps of ``modules`` take with and without averaging; see ``_unaveraged``."""
    wrappers = {
        id(part): part
        for module in modules
        for part in module.modules()
        if isinstance(part, DistributedDataParallel)
    }
    calls = DirectCalls(
        dist, _DIRECT, framework.timer, lambda options: bool(options.get("async_op"))
    )
    alone = _unaveraged(list(wrappers.values())) if wrappers else None
    return direct_calls.sample(framework, step, alone, calls)


@contextlib.contextmanager
def _unaveraged(wrappers: list[DistributedDataParallel]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for wrapper in wrappers:
            stack.enter_context(wrapper.no_sync())
        yield


def mean_over_ranks(value: float, device: torch.device) -> float:
    """Return the mean of ``value``, the same number on every rank."""
    total = torch.tensor([value], dtype=torch.float32, device=device)
    dist.all_reduce(total)
    return float(total.item() / dist.get_world_size())


def all_reduce_of(size_bytes: int, device: torch.device) -> Callable[[], None]:
    """Return a function that reduces a float32 message over the ranks, and waits for it."""
    message = torch.zeros(size_bytes // 4, device=device)

    def reduce() -> None:
        dist.all_reduce(message)
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    return reduce
