"""Versions of NCCL as people write them; each framework tells its own in another way."""

from __future__ import annotations

from typing import Any


def nccl_version(code: int) -> str | None:
    """Return ``2.18.5`` for 21805, and ``2.8.4`` for 2804, as nccl.h has it; None for 0."""
    if code <= 0:
        return None
    major, rest = divmod(code, 10000 if code >= 10000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def nccl_of_paddle(version: Any) -> str | None:
    """Return what ``paddle.version`` tells; before Paddle 3 it has no ``nccl``: then None."""
    tell = getattr(version, "nccl", None)
    told = str(tell()) if tell is not None else ""
    return nccl_version(int(told)) if told.isdecimal() else None


def horovod_operations(hvd: Any) -> dict[str, bool]:
    """Return by name what this Horovod was built with; ``hvd`` is a framework's module of it."""
    return {
        "nccl": bool(hvd.nccl_built()),
        "mpi": bool(hvd.mpi_built()),
        "gloo": bool(hvd.gloo_built()),
        "cuda": bool(hvd.cuda_built()),
        "rocm": bool(hvd.rocm_built()),
    }
