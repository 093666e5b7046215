"""Operators of a step: how often each is called where, with which shapes and bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch

from pytest_dlperf.core.wire_cost import OperatorCost
from pytest_dlperf.worker.cost.operator_sums import OperatorKey, OperatorSums
from pytest_dlperf.worker.frameworks.torch.cost.fake_device import is_on_device
from pytest_dlperf.worker.frameworks.torch.cost.storages import (
    bytes_of,
    dtype_of,
    key_of,
    tensors_in,
)
from pytest_dlperf.worker.frameworks.torch.flops import (
    may_use_tf32,
    operator_flops,
    packet_of,
    uncounted_dtypes,
)

#: Operators that make tensors, or look at them, and start nothing on a device.
_WITHOUT_LAUNCH: Final = frozenset({
    "empty", "empty_like", "empty_permuted", "empty_strided", "lift", "lift_fresh", "new_empty",
    "new_empty_strided", "record_stream", "resize_", "set_",
})  # fmt: skip
#: Operators in place that do not read what they write.
_WRITE_ONLY: Final = frozenset({
    "_foreach_copy_", "_foreach_zero_", "bernoulli_", "copy_", "exponential_", "fill_", "normal_",
    "random_", "uniform_", "zero_",
})  # fmt: skip
#: Tensors of an argument whose shapes are said one by one.
_MOST_SHAPES: Final = 4


class Operators:
    """Counts what starts work on the device."""

    def __init__(self) -> None:
        self._sums = OperatorSums()
        self.launches = 0
        #: Operators that may multiply and have no formula, with their dtypes.
        self.uncounted: dict[str, set[str]] = {}

    def begin(self) -> None:
        """Begin the step that counts."""
        self._sums, self.launches, self.uncounted = OperatorSums(), 0, {}

    def add(
        self, func: Any, args: tuple[Any, ...], kwargs: Any, out: Any, place: tuple[str, str]
    ) -> list[torch.Tensor]:
        """Count a call at ``place``, a path and a phase; return the tensors that it uses.

        They are none if it starts no work on the device, as a view does not.
        """
        packet, name = packet_of(func)
        plain = name.partition("::")[2]
        written, read = _arguments(func, plain, args, kwargs)
        storages = {key_of(tensor) for tensor in (*written, *read)}
        made = [t for t in tensors_in(out) if key_of(t) not in storages and t.numel()]
        inputs = tensors_in((args, kwargs))
        is_launch = (made or written) and plain not in _WITHOUT_LAUNCH
        if not is_launch or not any(map(is_on_device, (*inputs, *made))):
            return []
        self.launches += 1
        flops, dtype = self._flops(packet, name, args, kwargs, out)
        self._sums.add(
            OperatorKey(*place, plain, shapes_of((*args, *kwargs.values())), dtype),
            flops=flops,
            read_bytes=sum(map(bytes_of, read)),
            written_bytes=sum(map(bytes_of, (*written, *made))),
        )
        return [*inputs, *made]

    def flops(self) -> dict[str, int]:
        """Return the floating-point operations since ``begin`` by dtype."""
        return self._sums.flops()

    def cost(self) -> list[OperatorCost]:
        """Return the calls since ``begin``, in the order of their places, names and shapes."""
        return self._sums.cost()

    def _flops(
        self, packet: Any, name: str, args: tuple[Any, ...], kwargs: Any, out: Any
    ) -> tuple[int, str]:
        counted = operator_flops(packet, name, args, kwargs, out)
        if counted is None:
            dtypes = uncounted_dtypes(packet, name, args, kwargs)
            if dtypes is not None:
                self.uncounted.setdefault(name, set()).update(dtypes)
            return 0, ""
        if counted.dtype == "float32" and may_use_tf32(counted.part):
            return counted.flops, "tf32"
        return counted.flops, counted.dtype


def _arguments(
    func: Any, name: str, args: tuple[Any, ...], kwargs: Any
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return the tensors that a call writes in place, and those that it reads."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return [], tensors_in((args, kwargs))
    written, read = [], []
    for index, argument in enumerate(schema.arguments):
        value = args[index] if index < len(args) else kwargs.get(argument.name)
        tensors = tensors_in(value)
        is_written = argument.alias_info is not None and argument.alias_info.is_write
        if is_written:
            written += tensors
        if not (is_written and (argument.is_out or name in _WRITE_ONLY)):
            read += tensors
    return written, read


def shapes_of(values: Sequence[Any]) -> str:
    """Return shapes and dtypes of the tensors in ``values``: ``4096x4096 bfloat16``."""
    return ", ".join(text for value in values for text in _shapes(value))


def _shapes(value: Any) -> Iterator[str]:
    tensors = tensors_in(value)
    if len(tensors) <= _MOST_SHAPES:
        yield from map(_shape, tensors)
        return
    numbers: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for tensor in tensors:
        numbers[dtype_of(tensor)] += tensor.numel()
        counts[dtype_of(tensor)] += 1
    for dtype in sorted(counts):
        yield f"{counts[dtype]} tensors of {numbers[dtype]} {dtype}"


def _shape(tensor: torch.Tensor) -> str:
    return f"{'x'.join(map(str, tensor.shape)) or 'scalar'} {dtype_of(tensor)}"
