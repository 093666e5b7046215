"""Sees every operator of a training on fake tensors, and hands it to those who count."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as trees
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_dlperf.worker.cost.record_file import Progress
from pytest_dlperf.worker.frameworks.torch.cost.collectives import NAMESPACES, Collectives
from pytest_dlperf.worker.frameworks.torch.cost.fake_device import (
    DEVICE,
    is_on_device,
    on_fake_device,
)
from pytest_dlperf.worker.frameworks.torch.cost.host_waits import BY_DATA, HostWaits
from pytest_dlperf.worker.frameworks.torch.cost.memory import Memory
from pytest_dlperf.worker.frameworks.torch.cost.module_paths import ModulePaths
from pytest_dlperf.worker.frameworks.torch.cost.operators import Operators
from pytest_dlperf.worker.frameworks.torch.cost.storages import key_of, tensors_in

#: Namespaces of operators that do nothing on a device.
_IGNORED: Final = frozenset({"debugprims", "prim", "profiler"})
#: Operators between two notes of progress.
_PERIOD: Final = 200


class Dispatch(TorchDispatchMode):  # type: ignore[misc]  # torch is Any here
    """Hands operators to what counts them; above ``FakeTensorMode``, which does them."""

    #: Else FlexAttention, which is one, raises within any mode.
    supports_higher_order_operators = True

    def __init__(
        self,
        paths: ModulePaths,
        operators: Operators,
        collectives: Collectives,
        memory: Memory,
        waits: HostWaits,
        progress: Progress,
    ) -> None:
        super().__init__()
        self._paths, self._operators, self._collectives = paths, operators, collectives
        self._memory, self._waits, self._progress = memory, waits, progress
        self._operator_count = 0
        self._suspended = 0
        self._uncounted = False

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Leave operators alone while open: nothing runs, somebody asks for shapes."""
        self._suspended += 1
        try:
            yield
        finally:
            self._suspended -= 1

    @contextlib.contextmanager
    def uncounted(self) -> Iterator[None]:
        """Do operators while open as ever, and follow their memory alone."""
        self._uncounted = True
        try:
            yield
        finally:
            self._uncounted = False

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Return that torch.compile need not heed it."""
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Do the operation on fake tensors, and count it."""
        kwargs = kwargs or {}
        namespace = func.namespace
        if namespace in _IGNORED:
            return func(*args, **kwargs)
        if any(hasattr(kind, "__tensor_flatten__") for kind in types):
            # A tensor that wraps others does its work on them, in operators that come here, too
            return NotImplemented
        if self._suspended:
            return func(*args, **kwargs)
        name = getattr(func, "_overloadpacket", func).__name__
        if namespace in NAMESPACES:
            return self._collective(func, name, args, kwargs)
        return self._operator(func, name, args, kwargs)

    def _operator(self, func: Any, name: str, args: tuple[Any, ...], kwargs: Any) -> Any:
        args, kwargs, was_moved = _placed(args, kwargs)
        if name == "_local_scalar_dense":
            return self._waits.value(args[0])
        if name in BY_DATA:
            return self._longest_result(func, name, args)
        if name == "index" and func.namespace == "aten":
            args = (args[0], self._numbers_of(args[1]), *args[2:])
        if name == "_to_copy" and was_moved and _is_there(args[0], kwargs):
            return torch.ops.aten.alias.default(args[0])
        if name == "_amp_foreach_non_finite_check_and_unscale_":
            self._waits.is_zero(args[1])
        self._wait_for_copy(name, args, kwargs)
        out = None
        if _only_writes(func):
            _forget_numbers(args, kwargs)
        else:
            out = func(*args, **kwargs)
        self._count(func, args, kwargs, out)
        return out

    def _count(self, func: Any, args: tuple[Any, ...], kwargs: Any, out: Any) -> None:
        place = self._paths.now()
        if not self._uncounted:
            used = self._operators.add(func, args, kwargs, out, place)
            if used:
                self._collectives.used(map(key_of, used))
                self._collectives.launches = self._operators.launches
        self._follow(out, place)
        self._operator_count += 1
        if self._operator_count % _PERIOD == 0:
            self._progress.note(f"{self._operator_count} operators")

    def _follow(self, out: Any, place: tuple[str, str]) -> None:
        kind = self._paths.kind or _kind_in(place[1])
        for tensor in tensors_in(out):
            self._memory.add(tensor, place[0], kind)

    def _collective(self, func: Any, name: str, args: tuple[Any, ...], kwargs: Any) -> Any:
        place = self._paths.now()
        is_known = self._collectives.add(name, args, kwargs, *place)
        out = func(*args, **kwargs)
        if is_known:
            self._collectives.made(out, args, kwargs)
        self._follow(out, place)
        return out

    def _longest_result(self, func: Any, name: str, args: tuple[Any, ...]) -> torch.Tensor:
        """Return as many rows as there can be, of what has as many as the data say."""
        tensor = args[0]
        place = self._waits.add(name) if is_on_device(tensor) else ""
        if place:
            self._waits.notes.add(
                f"{place} makes a tensor whose length the data decide ({name}); it is counted as "
                "long as it can be"
            )
        if name == "nonzero":
            shape: tuple[int, ...] = (tensor.numel(), tensor.dim())
            dtype = torch.int64
        else:
            shape, dtype = (tensor.numel(),), tensor.dtype
        out = torch.ops.aten.empty.memory_format(shape, dtype=dtype, device=tensor.device)
        self._count(func, args, {}, out)
        return out

    def _numbers_of(self, indices: Any) -> list[Any]:
        """Return ``indices`` with the numbers of the true places instead of masks."""
        numbers: list[Any] = []
        for index in indices:
            if isinstance(index, torch.Tensor) and index.dtype in {torch.bool, torch.uint8}:
                rows = self._longest_result(torch.ops.aten.nonzero.default, "nonzero", (index,))
                numbers += rows.unbind(1)
            else:
                numbers.append(index)
        return numbers

    def _wait_for_copy(self, name: str, args: tuple[Any, ...], kwargs: Any) -> None:
        """Count a wait where the device's numbers go to the host, and the host waits for them."""
        if name == "_to_copy":
            goes = kwargs.get("device")
            is_blocking = not kwargs.get("non_blocking")
            if goes == torch.device("cpu") and is_on_device(args[0]) and is_blocking:
                self._waits.add(".cpu()")
        elif name == "copy_":
            is_blocking = not (len(args) > 2 and args[2])
            if is_on_device(args[1]) and not is_on_device(args[0]) and is_blocking:
                self._waits.add(".copy_()")


def _only_writes(func: Any) -> bool:
    """Return whether ``func`` returns nothing: nobody has to know what shape that would have."""
    schema = getattr(func, "_schema", None)
    return schema is not None and schema.is_mutable and not schema.returns


def _forget_numbers(*values: Any) -> None:
    """Forget the numbers that are known of tensors which may be written."""
    for leaf in trees.tree_leaves(values):
        if isinstance(leaf, FakeTensor):
            leaf.constant = None


def _kind_in(phase: str) -> str:
    """Return what tensors are held for that ``phase`` makes, where nothing else says it."""
    # Outside of modules it may be the loss, whose gradient is asked for
    is_kept = phase == "forward" or (phase == "rest" and torch.is_grad_enabled())
    return "activations" if is_kept else "rest"


def _placed(args: tuple[Any, ...], kwargs: Any) -> tuple[tuple[Any, ...], Any, bool]:
    """Return the arguments for the device of the trace, without a generator of random numbers.

    And whether the device was another: the one that the program sees.
    """
    before = kwargs.get("device")
    if kwargs.get("generator") is not None:
        # Fake tensors have no numbers, and take no generator of the host
        kwargs = {**kwargs, "generator": None}
    if any(isinstance(value, torch.device) for value in (*args, *kwargs.values())):
        args, kwargs = on_fake_device(args), on_fake_device(kwargs)
    return args, kwargs, before is not None and kwargs["device"] == DEVICE


def _is_there(tensor: Any, kwargs: Any) -> bool:
    """Return whether a copy to the device would be none on a GPU."""
    layout = kwargs.get("memory_format")
    return (
        is_on_device(tensor)
        and kwargs.get("dtype") in {None, tensor.dtype}
        and (layout in {None, torch.preserve_format} or tensor.is_contiguous(memory_format=layout))
    )
