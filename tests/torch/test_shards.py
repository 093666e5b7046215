"""The parts that FSDP cuts a parameter into, one at a time."""

from __future__ import annotations

import pytest
import torch
from torch.distributed.fsdp._fully_shard import _fsdp_common

from pytest_dlperf.worker.frameworks.torch.cost.shards import Shards

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("dim", [0, 1])
def test_parts_are_those_of_fsdp(dim: int):
    for length in range(10):
        tensor = torch.arange(10 * length).reshape((length, 10) if dim == 0 else (10, length))
        for count in range(1, 8):
            parts = Shards(tensor, count, dim)
            expected = _fsdp_common._chunk_with_empty(tensor, count, dim)
            assert len(parts) == len(expected) == count
            for part, other in zip(parts, expected, strict=True):
                assert part.shape == other.shape
                assert torch.equal(part, other)
                assert not part.numel() or part.data_ptr() == other.data_ptr()
