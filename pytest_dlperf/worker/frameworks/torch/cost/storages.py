"""Tensors in nested arguments, and the storages that they show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.utils import _pytree as trees


def tensors_in(values: Any) -> list[torch.Tensor]:
    """Return the tensors in ``values``, in order."""
    leaves: Iterable[Any] = trees.tree_leaves(values)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def storage_of(tensor: torch.Tensor) -> Any:
    """Return the storage of ``tensor``; None if it has none of its own, as sparse ones."""
    return tensor.untyped_storage() if tensor.layout == torch.strided else None


def key_of(tensor: torch.Tensor) -> int:
    """Return a number that is the same for tensors which show one storage."""
    storage = storage_of(tensor)
    return id(tensor) if storage is None else int(storage._cdata)


def bytes_of(tensor: torch.Tensor) -> int:
    """Return the bytes of what ``tensor`` shows; an expanded one is read once.

    Of a sparse one those of its parts count, where they are made.
    """
    storage = storage_of(tensor)
    if storage is None:
        return 0
    return min(int(tensor.numel() * tensor.element_size()), int(storage.nbytes()))


def dtype_of(tensor: torch.Tensor) -> str:
    """Return the dtype of ``tensor``: ``bfloat16``."""
    return str(tensor.dtype).removeprefix("torch.")
