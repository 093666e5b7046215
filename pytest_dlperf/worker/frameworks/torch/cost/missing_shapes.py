"""Shapes of what operators return for which PyTorch has no implementation without data.

Of the rows of a dense tensor that a sparse one has, for a sparse optimizer: as many as that has.
Of collectives, before PyTorch had one of its own: what the group returns, which does nothing.
Of synchronised batch normalisation, as ``aten/src/ATen/native/cuda/Normalization.cu`` of
https://github.com/pytorch/pytorch makes them: sums of half precision are in float32.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import torch


def _channel_sums(inputs: torch.Tensor) -> torch.Tensor:
    is_half = inputs.dtype in {torch.float16, torch.bfloat16}
    return inputs.new_empty(inputs.shape[1], dtype=torch.float32 if is_half else inputs.dtype)


def _stats(inputs: torch.Tensor, *_: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return _channel_sums(inputs), _channel_sums(inputs)


def _like(inputs: torch.Tensor, *_: Any) -> torch.Tensor:
    return torch.empty_like(inputs)


def _reduced(_gradient: torch.Tensor, inputs: torch.Tensor, *_: Any) -> tuple[torch.Tensor, ...]:
    return tuple(_channel_sums(inputs) for _ in range(4))


def _masked(
    dense: torch.Tensor, mask: torch.Tensor, accumulate_matches: bool = False
) -> torch.Tensor:
    values = dense.new_empty(mask._values().shape)
    return torch.sparse_coo_tensor(mask._indices(), values, mask.shape, check_invariants=False)


_SHAPES: Final[Mapping[str, Callable[..., Any]]] = {
    "batch_norm_backward_elemt": _like,
    "batch_norm_backward_reduce": _reduced,
    "batch_norm_elemt": _like,
    "batch_norm_gather_stats_with_counts": _stats,
    "batch_norm_stats": _stats,
}


@contextlib.contextmanager
def missing_shapes() -> Iterator[None]:
    """Let these operators return tensors without data while open."""
    with (
        _registered("aten", "Meta", _SHAPES),
        _registered("aten", "SparseMeta", {"sparse_mask": _masked}),
        _registered("c10d", "Meta", _collectives()),
    ):
        yield


def _collectives() -> dict[str, Callable[..., Any]]:
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    on_cpu = torch._C._dispatch_get_registrations_for_dispatch_key("CPU")
    names = (name.removeprefix("c10d::") for name in on_cpu if name.startswith("c10d::"))
    shapes: dict[str, Callable[..., Any]] = {
        name: functools.partial(getattr(torch.ops.c10d, name).default.redispatch, keys)
        for name in names
        if "." not in name
    }
    gather = shapes["_allgather_base_"]

    def gathered(output: torch.Tensor, inputs: torch.Tensor, *rest: Any) -> Any:
        # The group cuts rows for ranks, and those of synchronised batch normalisation are one
        return output, gather(output.flatten(), inputs.flatten(), *rest)[1]

    return {**shapes, "_allgather_base_": gathered}


@contextlib.contextmanager
def _registered(
    namespace: str, key: str, shapes: Mapping[str, Callable[..., Any]]
) -> Iterator[None]:
    library = torch.library.Library(namespace, "IMPL", key)
    try:
        for name, shape in shapes.items():
            operator = getattr(getattr(torch.ops, namespace), name).default
            if not torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), key):
                library.impl(name, shape)
        yield
    finally:
        library._destroy()
