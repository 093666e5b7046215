"""Ranks that are not there: process groups in which a collective ends at once."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import device_mesh, distributed_c10d
from torch.distributed.fsdp._fully_shard import _fsdp_param_group, _fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parallel import distributed as data_parallel
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import _disable_current_modes

from pytest_dlperf.worker.cost.replaced import replaced, wrapped
from pytest_dlperf.worker.frameworks.torch.cost.collectives import Collectives
from pytest_dlperf.worker.frameworks.torch.cost.fake_device import DEVICE, on_fake_device
from pytest_dlperf.worker.frameworks.torch.cost.memory import Memory
from pytest_dlperf.worker.frameworks.torch.cost.module_paths import ModulePaths
from pytest_dlperf.worker.frameworks.torch.cost.shards import shards_made_when_asked_for


class FakeRanks:
    """One of ``world_size`` ranks, of which the others are not there."""

    def __init__(
        self,
        rank: int,
        world_size: int,
        paths: ModulePaths,
        collectives: Collectives,
        memory: Memory,
    ) -> None:
        #: Whether the model is split into stages.
        self.has_stages = False
        self._rank, self._world_size = rank, world_size
        self._paths, self._collectives, self._memory = paths, collectives, memory

    @contextlib.contextmanager
    def join(self) -> Iterator[None]:
        """Be that rank while open; of several ranks the process group is there from the start."""
        os.environ.update(
            RANK=str(self._rank),
            LOCAL_RANK=str(self._rank % int(os.environ.get("LOCAL_WORLD_SIZE", "1"))),
            WORLD_SIZE=str(self._world_size),
        )
        with contextlib.ExitStack() as opened:
            for owner in (dist, distributed_c10d, device_mesh):
                opened.enter_context(replaced(owner, "init_process_group", self._init))
                opened.enter_context(wrapped(owner, "new_group", _fake_group))
            self._follow_meshes(opened)
            _follow_copies(opened, self._paths)
            self._follow_shards(opened)
            if self.has_stages:
                _place_stages(opened)
            try:
                if self._world_size > 1:
                    self._init()
                yield
            finally:
                if dist.is_initialized():
                    dist.destroy_process_group()

    def _init(self, *_: Any, **__: Any) -> None:
        if dist.is_initialized():
            return
        with _disable_current_modes():
            _INIT("fake", rank=self._rank, world_size=self._world_size, store=FakeStore())

    def _follow_meshes(self, opened: contextlib.ExitStack) -> None:
        """Make meshes of real numbers, and of the type of device that tensors really have."""
        meshes, kinds = self._collectives.meshes, device_mesh.DeviceMesh

        def noted(initialise: Callable[..., None]) -> Callable[..., None]:
            @functools.wraps(initialise)
            def initialised(
                # Not named as the original's second argument, which is given by name, too
                made: Any,
                device_type: str,
                *args: Any,
                **kwargs: Any,
            ) -> None:
                with _disable_current_modes():
                    initialise(made, _type(device_type), *args, **kwargs)
                meshes.append(made)

            return initialised

        def typed(initialise: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(initialise)
            def initialised(device_type: str, *args: Any, **kwargs: Any) -> Any:
                with _disable_current_modes():
                    return initialise(_type(device_type), *args, **kwargs)

            return initialised

        opened.enter_context(wrapped(kinds, "__init__", noted))
        opened.enter_context(wrapped(device_mesh, "init_device_mesh", typed))
        opened.enter_context(replaced(dist, "init_device_mesh", device_mesh.init_device_mesh))
        for name in ("__getitem__", "_flatten", "from_group", "_unflatten", "_concatenate"):
            if name in vars(kinds) and not isinstance(vars(kinds)[name], staticmethod):
                opened.enter_context(wrapped(kinds, name, _without_modes))

    def _follow_shards(self, opened: contextlib.ExitStack) -> None:
        """Name the module whose parameters FSDP gathers, or whose gradients it scatters."""
        paths, collectives, memory = self._paths, self._collectives, self._memory

        def gathered(method: Any) -> Any:
            def call(group: Any, *args: Any, **kwargs: Any) -> Any:
                with paths.within(group.modules[0], "parameters"), collectives.on_side_stream():
                    return method(group, *args, **kwargs)

            return call

        def scattered(method: Any) -> Any:
            def call(group: Any, *args: Any, **kwargs: Any) -> Any:
                for parameter in group.fsdp_params:
                    whole = getattr(parameter, "_unsharded_param", None)
                    if whole is not None and whole.grad is not None:
                        memory.tag(whole.grad, "gradients", paths.module_path(group.modules[0]))
                with paths.within(group.modules[0], "gradients"), collectives.on_side_stream():
                    return method(group, *args, **kwargs)

            return call

        kind = _fsdp_param_group.FSDPParamGroup
        for name, wrap in (
            ("unshard", gathered),
            ("wait_for_unshard", gathered),
            ("post_backward", scattered),
        ):
            opened.enter_context(wrapped(kind, name, wrap))
        opened.enter_context(replaced(_fully_shard, "_get_device_from_mesh", lambda _: DEVICE))
        opened.enter_context(shards_made_when_asked_for())


#: The original.
_INIT = dist.init_process_group


def _type(device_type: Any) -> str:
    name = str(device_type).partition(":")[0]
    return "cpu" if name == "cuda" else name


def _without_modes(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            return function(*args, **kwargs)

    return called


def _fake_group(new_group: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(new_group)
    def made(*args: Any, **kwargs: Any) -> Any:
        given = list(args)
        if len(given) > 2:
            given[2] = None
        kwargs.pop("backend", None)
        kwargs.pop("device_id", None)
        with _disable_current_modes():
            return new_group(*given, **kwargs)

    return made


def _place_stages(opened: contextlib.ExitStack) -> None:
    """Let stages of a pipeline hold their buffers on the device of the trace."""
    # It takes long to import
    from torch.distributed.pipelining import stage

    def wrap(initialise: Any) -> Any:
        @functools.wraps(initialise)
        def initialised(part: Any, *args: Any, **kwargs: Any) -> None:
            initialise(part, *on_fake_device(args), **on_fake_device(kwargs))

        return initialised

    for kind in (stage.PipelineStage, stage._PipelineStageBase):
        opened.enter_context(wrapped(kind, "__init__", wrap))


def _follow_copies(opened: contextlib.ExitStack, paths: ModulePaths) -> None:
    """Let DistributedDataParallel hold fake tensors.

    Its part in C++ reads numbers when it compares shapes over ranks, and when it makes its
    buckets again in the order of the first backward pass: those are made at once. It waits for a
    result of its collectives, which a fake group has not: a hook for them gives it one.
    """

    def initialised(initialise: Any) -> Any:
        @functools.wraps(initialise)
        def made(model: Any, module: Any, *args: Any, **kwargs: Any) -> None:
            for name in ("device_ids", "output_device"):
                kwargs.pop(name, None)
            initialise(model, module, *[None for _ in args[:2]], *args[2:], **kwargs)

        return made

    def forwarded(forward: Any) -> Any:
        @functools.wraps(forward)
        def called(model: Any, *args: Any, **kwargs: Any) -> Any:
            if not model._comm_hooks and not getattr(model, "_dlperf_has_hook", False):
                model._dlperf_has_hook = True
                dist._register_comm_hook(model.reducer, model.process_group, _reduce_bucket)
            return forward(model, *args, **kwargs)

        return called

    def with_cap(helper: Any) -> Any:
        @functools.wraps(helper)
        def called(model: Any, *args: Any, **kwargs: Any) -> Any:
            buckets = functools.partial(_ready_buckets, dist._compute_bucket_assignment_by_size,
                                        model.bucket_bytes_cap)  # fmt: skip
            paths.know(model.module)
            with (
                replaced(dist, "_compute_bucket_assignment_by_size", buckets),
                paths.within(model.module, "gradients"),
            ):
                return helper(model, *args, **kwargs)

        return called

    opened.enter_context(wrapped(DistributedDataParallel, "_ddp_init_helper", with_cap))
    name = "_verify_param_shape_across_processes"
    opened.enter_context(replaced(data_parallel, name, lambda *_, **__: None))
    name = "_passing_sync_batchnorm_handle"
    opened.enter_context(replaced(DistributedDataParallel, name, lambda *_: None))
    opened.enter_context(replaced(dist.Reducer, "_rebuild_buckets", lambda _: False))
    opened.enter_context(wrapped(DistributedDataParallel, "__init__", initialised))
    opened.enter_context(wrapped(DistributedDataParallel, "forward", forwarded))


def _ready_buckets(
    compute: Callable[..., Any], cap: int, parameters: list[Any], limits: list[int], sparse: Any
) -> Any:
    """Return the buckets that DistributedDataParallel has from its second step on.

    It makes one bucket of all parameters at first, and those of the caps in the order in which
    the first backward pass had the gradients: the reverse of the parameters' order, mostly.
    """
    if limits != [sys.maxsize]:
        return compute(parameters, limits, sparse)
    last = len(parameters) - 1
    caps = [min(dist._DEFAULT_FIRST_BUCKET_BYTES, cap), cap]
    buckets, sizes = compute(parameters[::-1], caps, sparse[::-1])
    # The caller reverses them
    ready = [[last - index for index in bucket] for bucket in buckets]
    return ready[::-1], sizes[::-1]


def _reduce_bucket(group: Any, bucket: Any) -> Any:
    dist.all_reduce(bucket.buffer(), group=group, async_op=True)
    done: Any = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done
