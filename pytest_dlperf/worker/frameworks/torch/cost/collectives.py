"""Collectives in the order in which a step starts them, and what could run meanwhile."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import torch
import torch.distributed as dist

from pytest_dlperf.core.wire_cost import CollectiveCost
from pytest_dlperf.worker.cost.replaced import wrapped
from pytest_dlperf.worker.cost.spread import spread_of
from pytest_dlperf.worker.frameworks.torch.cost.storages import (
    dtype_of,
    key_of,
    storage_of,
    tensors_in,
)

#: Namespaces of operators that are collectives, or what belongs to them.
NAMESPACES: Final = frozenset({"c10d", "_c10d_functional"})
#: Those of them that send nothing.
_NO_COLLECTIVES: Final = frozenset({"_wrap_tensor_autograd", "check_for_nan", "wait_tensor"})


class _Kind(NamedTuple):
    kind: str
    #: Which argument has the whole tensor, or this rank's part of it.
    argument: int = 0
    #: Whether it is a part, as large as those of the other ranks.
    is_part: bool = False


#: By the name of the operator.
_KINDS: Final = {
    "_allgather_base_": _Kind("all-gather"),
    "_reduce_scatter_base_": _Kind("reduce-scatter", 1),
    "all_gather_into_tensor": _Kind("all-gather", is_part=True),
    "all_gather_into_tensor_coalesced": _Kind("all-gather", is_part=True),
    "all_gather_into_tensor_out": _Kind("all-gather", is_part=True),
    "all_reduce": _Kind("all-reduce"),
    "all_reduce_": _Kind("all-reduce"),
    "all_reduce_coalesced": _Kind("all-reduce"),
    "all_reduce_coalesced_": _Kind("all-reduce"),
    "all_to_all_single": _Kind("all-to-all"),
    "allgather_": _Kind("all-gather"),
    "allgather_coalesced_": _Kind("all-gather"),
    "allgather_into_tensor_coalesced_": _Kind("all-gather"),
    "allreduce_": _Kind("all-reduce"),
    "allreduce_coalesced_": _Kind("all-reduce"),
    "alltoall_": _Kind("all-to-all", 1),
    "alltoall_base_": _Kind("all-to-all", 1),
    "barrier": _Kind("barrier"),
    "broadcast": _Kind("broadcast"),
    "broadcast_": _Kind("broadcast"),
    "gather_": _Kind("gather", 1, is_part=True),
    "recv_": _Kind("receive"),
    "recv_any_source_": _Kind("receive"),
    "reduce_": _Kind("reduce"),
    "reduce_scatter_": _Kind("reduce-scatter", 1),
    "reduce_scatter_tensor": _Kind("reduce-scatter"),
    "reduce_scatter_tensor_coalesced": _Kind("reduce-scatter"),
    "reduce_scatter_tensor_coalesced_": _Kind("reduce-scatter", 1),
    "reduce_scatter_tensor_out": _Kind("reduce-scatter"),
    "scatter_": _Kind("scatter", 0, is_part=True),
    "send": _Kind("send"),
}


@dataclass(eq=False)
class _Call:
    what: tuple[str, str, int, str, int, str, int, str, str]
    begun_at: int
    overlapped: bool = False
    is_open: bool = True
    #: Of the storages that it writes, by their numbers, which others get once those are freed.
    storages: dict[int, weakref.ref[Any]] = field(default_factory=dict)


class Collectives:
    """Follows collectives from their start until somebody waits for them, or uses them."""

    def __init__(self) -> None:
        #: Meshes of the program, whose dimensions name groups.
        self.meshes: list[Any] = []
        #: Launches until now.
        self.launches = 0
        #: Operators that may be collectives, and are not known.
        self.unknown: set[str] = set()
        self._calls: list[_Call] = []
        self._open: dict[int, _Call] = {}
        self._works: list[tuple[Any, _Call]] = []
        #: How many there were when a group began to take several for one.
        self._coalesced_from = 0
        self._on_side_stream = 0

    @contextlib.contextmanager
    def follow(self) -> Iterator[None]:
        """Follow what is waited for while open."""
        with contextlib.ExitStack() as opened:
            for name in _methods(dist.ProcessGroup):
                opened.enter_context(wrapped(dist.ProcessGroup, name, self._with_work))
            for name, wrap in (
                ("_start_coalescing", self._coalescing),
                ("_end_coalescing", self._coalesced),
            ):
                opened.enter_context(wrapped(dist.ProcessGroup, name, wrap))
            kinds = (dist.Work, getattr(torch._C._distributed_c10d, "FakeWork", None))
            for kind in filter(None, kinds):
                opened.enter_context(wrapped(kind, "wait", self._waited))
            yield

    @contextlib.contextmanager
    def on_side_stream(self) -> Iterator[None]:
        """Take waits while open for those of a stream beside the one that computes."""
        self._on_side_stream += 1
        try:
            yield
        finally:
            self._on_side_stream -= 1

    def begin(self) -> None:
        """Begin the step that counts."""
        self._calls, self._open, self._works, self.launches = [], {}, [], 0
        self.unknown = set()

    def add(self, name: str, args: tuple[Any, ...], kwargs: Any, path: str, phase: str) -> bool:
        """Note the operator ``name``; return whether it is a collective, and no wait for one."""
        if name == "wait_tensor":
            self.used(map(key_of, tensors_in(args)))
            return False
        listed = _KINDS.get(name)
        if listed is None:
            if name not in _NO_COLLECTIVES:
                self.unknown.add(name)
            return False
        ranks = _ranks(args)
        tensors = [] if listed.kind == "barrier" else tensors_in(args[listed.argument])
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        dtype = dtype_of(tensors[0]) if tensors else ""
        what = (
            listed.kind, self._group(ranks), len(ranks), spread_of(ranks),
            max(ranks) - min(ranks) + 1, dtype,
            size * len(ranks) if listed.is_part else size, path, phase,
        )  # fmt: skip
        self._calls.append(_Call(what, self.launches))
        return True

    def made(self, out: Any, args: tuple[Any, ...], kwargs: Any) -> None:
        """Note the tensors that the last collective writes."""
        call = self._calls[-1]
        for tensor in tensors_in(out) or tensors_in(kwargs) or tensors_in(args[:1]):
            key, storage = key_of(tensor), storage_of(tensor)
            forget = functools.partial(self._forget, key, call)
            call.storages[key] = weakref.ref(tensor if storage is None else storage, forget)
            self._open[key] = call

    def used(self, storages: Iterable[int]) -> None:
        """Note that tensors are used, or waited for."""
        for storage in storages:
            call = self._open.pop(storage, None)
            if call is not None:
                self._close(call)

    def cost(self) -> list[CollectiveCost]:
        """Return the collectives since ``begin``; equal ones that follow each other are one."""
        for call in self._calls:
            self._close(call)
        costs: list[CollectiveCost] = []
        last = None
        for call in self._calls:
            if call.what != last:
                kind, group, ranks, spread, span, dtype, size, path, phase = last = call.what
                costs.append(
                    CollectiveCost(
                        kind=kind, group=group, ranks=ranks, spread=spread, span=span,
                        dtype=dtype, bytes=size, calls=0, path=path, phase=phase, overlapped=0,
                    )
                )  # fmt: skip
            costs[-1]["calls"] += 1
            costs[-1]["overlapped"] += call.overlapped
        return costs

    def _close(self, call: _Call) -> None:
        if not call.is_open:
            return
        call.is_open, call.overlapped = False, self.launches > call.begun_at
        for storage in call.storages:
            self._forget(storage, call)
        call.storages.clear()

    def _forget(self, storage: int, call: _Call, _: Any = None) -> None:
        # A later one may write the same
        if self._open.get(storage) is call:
            del self._open[storage]

    def _with_work(self, method: Any) -> Any:
        def started(*args: Any, **kwargs: Any) -> Any:
            before = len(self._calls)
            work = method(*args, **kwargs)
            if len(self._calls) > before:
                self._works.append((work, self._calls[-1]))
            return work

        return started

    def _coalescing(self, method: Any) -> Any:
        def begun(*args: Any, **kwargs: Any) -> Any:
            self._coalesced_from = len(self._calls)
            return method(*args, **kwargs)

        return begun

    def _coalesced(self, method: Any) -> Any:
        def ended(*args: Any, **kwargs: Any) -> Any:
            work = method(*args, **kwargs)
            self._works += [(work, call) for call in self._calls[self._coalesced_from :]]
            return work

        return ended

    def _waited(self, method: Any) -> Any:
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._on_side_stream:
                calls = [call for waited_for, call in self._works if waited_for is work]
                self._works = [pair for pair in self._works if pair[0] is not work]
                for call in calls:
                    self._close(call)
            return method(work, *args, **kwargs)

        return wait

    def _group(self, ranks: tuple[int, ...]) -> str:
        """Return the dimension of a mesh that ``ranks`` are, or how they follow each other."""
        for mesh in self.meshes:
            if mesh.mesh_dim_names is None:
                continue
            for name, group in zip(mesh.mesh_dim_names, mesh.get_all_groups(), strict=True):
                if tuple(dist.get_process_group_ranks(group)) == ranks:
                    return str(name)
        return spread_of(ranks)


def _methods(kind: type) -> list[str]:
    """Return the names of the methods of ``kind``; which start a collective differs by version."""
    return [
        name
        for name, method in vars(kind).items()
        if callable(method)
        and not isinstance(method, type | staticmethod)
        and not name.startswith("__")
    ]


def _ranks(args: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the ranks of the group among the arguments of a collective."""
    for value in reversed(args):
        if isinstance(value, torch.ScriptObject):
            with contextlib.suppress(RuntimeError):
                return tuple(dist.get_process_group_ranks(dist.ProcessGroup.unbox(value)))
    names = [value for value in args if isinstance(value, str)]
    group = dist.distributed_c10d._resolve_process_group(names[-1])
    return tuple(dist.get_process_group_ranks(group))
