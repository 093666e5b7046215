"""Collectives of a Paddle training: what they cost a step, and an all-reduce of any size."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import paddle
import paddle.distributed as dist

from pytest_dlperf.core.wire_records import CollectivesRecord
from pytest_dlperf.worker.frameworks import direct_calls
from pytest_dlperf.worker.frameworks.base import Framework
from pytest_dlperf.worker.frameworks.direct_calls import DirectCalls

#: Functions of ``paddle.distributed`` that a step may call itself.
_DIRECT: Final = (
    "all_gather",
    "all_reduce",
    "alltoall",
    "alltoall_single",
    "barrier",
    "broadcast",
    "reduce",
    "reduce_scatter",
)


def sample(
    framework: Framework, step: Callable[[], Any], layers: Iterable[paddle.nn.Layer]
) -> CollectivesRecord:
    """Return what steps of ``layers`` take with and without averaging; see ``_unaveraged``."""
    wrappers = {
        id(part): part
        for layer in layers
        for part in layer.sublayers(include_self=True)
        if isinstance(part, paddle.DataParallel)
    }
    calls = DirectCalls(
        dist, _DIRECT, framework.timer, lambda options: not options.get("sync_op", True)
    )
    alone = _unaveraged(list(wrappers.values())) if wrappers else None
    return direct_calls.sample(framework, step, alone, calls)


@contextlib.contextmanager
def _unaveraged(wrappers: list[paddle.DataParallel]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for wrapper in wrappers:
            stack.enter_context(wrapper.no_sync())
        yield


def mean_over_ranks(value: float) -> float:
    """Return the mean of ``value``, the same number on every rank."""
    total = paddle.full([1], value, dtype="float32")
    dist.all_reduce(total)
    return float(total.item() / dist.get_world_size())


def all_reduce_of(size_bytes: int, wait: Callable[[], None]) -> Callable[[], None]:
    """Return a function that reduces a float32 message over the ranks, and waits for it."""
    message = paddle.zeros([size_bytes // 4])

    def reduce() -> None:
        dist.all_reduce(message)
        wait()

    return reduce
