"""Checksums of parameters: whole ones, and the shards of a rank."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence
from typing import Any

import torch

from pytest_dlperf.core.wire_records import Checksum, ShardChecksum
from pytest_dlperf.worker.frameworks.base import checksum_of


def checksum(parameters: Sequence[torch.Tensor]) -> Checksum:
    """Return a digest of the bytes of ``parameters``, in order.

    Of a DTensor the local tensor counts. Those that are sharded have a digest of their own, since
    only ranks with the same shards have equal ones.
    """
    whole, shards, place = [], [], hashlib.blake2b(digest_size=16)
    for parameter in parameters:
        where = _place(parameter)
        if where is None:
            whole.append(_local(parameter))
        else:
            place.update(f"{where};".encode())
            shards.append(_local(parameter))
    found = checksum_of(map(_bytes_of, whole))
    if shards:
        of_shards = checksum_of(map(_bytes_of, shards))
        found["shards"] = ShardChecksum(
            digest=of_shards["digest"], tensors=of_shards["tensors"], place=place.hexdigest()
        )
    return found


def _place(parameter: Any) -> str | None:
    """Return the placements of a DTensor and which shard is here; None for a whole tensor."""
    if not hasattr(parameter, "placements"):
        return None
    coordinates = parameter.device_mesh.get_coordinate() or ()
    parts = [
        (repr(placement), at)
        for placement, at in zip(parameter.placements, coordinates, strict=False)
        if not placement.is_replicate()
    ]
    return repr(parts) if parts else None


def _local(parameter: Any) -> torch.Tensor:
    local = parameter.detach()
    # The data pointer of a DTensor is null.
    return local.to_local() if hasattr(local, "to_local") else local


def _bytes_of(tensor: torch.Tensor) -> bytes:
    host = tensor.cpu().contiguous()
    return ctypes.string_at(host.data_ptr(), host.numel() * host.element_size())
