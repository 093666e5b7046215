"""The part of a parameter that FSDP gives one rank, without those of all others.

FSDP cuts each parameter into a part for every rank and keeps one. Of hundreds of ranks the others
take most of the time of a trace, and none is ever looked at.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import torch
from torch.distributed.fsdp._fully_shard import _fsdp_param

from pytest_dlperf.worker.cost.replaced import replaced


@contextlib.contextmanager
def shards_made_when_asked_for() -> Iterator[None]:
    """Let FSDP cut off a part only where it takes it, while open."""
    with replaced(_fsdp_param, "_chunk_with_empty", Shards):
        yield


class Shards(Sequence[torch.Tensor]):
    """Parts of a tensor as ``torch.chunk`` cuts them, the last ones empty."""

    def __init__(self, tensor: torch.Tensor, num_chunks: int, dim: int) -> None:
        self._tensor, self._count, self._dim = tensor, num_chunks, dim
        self._length = -(-tensor.size(dim) // num_chunks)

    def __len__(self) -> int:
        """Return how many parts there are."""
        return self._count

    def __getitem__(self, index: int) -> torch.Tensor:  # type: ignore[override]  # no slices
        """Return a part, a view of the tensor where it is not empty."""
        begin = self._length * range(self._count)[index]
        left = self._tensor.size(self._dim) - begin
        if begin and left <= 0:
            return self._tensor.new_empty(0)
        return self._tensor.narrow(self._dim, begin, min(self._length, left))
