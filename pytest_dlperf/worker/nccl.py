"""Versions of NCCL, and what Horovod was built with. A probe imports this on any Python."""

from __future__ import annotations

from typing import Any


def nccl_version(code: int) -> str | None:
    """Return ``2.18.5`` for 21805, and ``2.8.4`` for 2804, as nccl.h has it; None for 0."""
    if code <= 0:
        return None
    major, rest = divmod(code, 10000 if code >= 10000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def nccl_of_paddle(version: Any) -> str | None:
    """Return the version in ``paddle.version``; None before Paddle 3, which has no ``nccl``."""
    read = getattr(version, "nccl", None)
    code = str(read()) if read is not None else ""
    return nccl_version(int(code)) if code.isdecimal() else None


def horovod_operations(hvd: Any) -> dict[str, bool]:
    """Return what this Horovod was built with, by name; ``hvd`` is its module for a framework."""
    return {
        "nccl": bool(hvd.nccl_built()),
        "mpi": bool(hvd.mpi_built()),
        "gloo": bool(hvd.gloo_built()),
        "cuda": bool(hvd.cuda_built()),
        "rocm": bool(hvd.rocm_built()),
    }
