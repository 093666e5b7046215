"""Shared memory and locked memory that a process may use here, and what fails for want of them.

A container starts with 64 MiB of shared memory and few locked pages, whatever its host has;
NCCL's manual and the source reports give it ``--shm-size=1g --ulimit memlock=-1``.
"""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SHARED_MEMORY: Final = Path("/dev/shm")
_ENOUGH_SHARED_BYTES: Final = 2**30


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryLimits:
    """Sizes in bytes; None where the system does not tell."""

    shared_bytes: int | None
    #: The soft limit of locked memory.
    locked_bytes: int | None
    locked_unlimited: bool

    def missing(self, *, gpus: int) -> list[str]:
        """Return a sentence for each limit that cases would run into."""
        lines = []
        if self.shared_bytes is not None and self.shared_bytes < _ENOUGH_SHARED_BYTES:
            several = "layouts of several GPUs on a node (NCCL), and " if gpus > 1 else ""
            lines.append(
                f"shared memory ({_SHARED_MEMORY}) has {size_text(self.shared_bytes)}: {several}"
                "cases whose data workers hand batches over in it, fail with a bus error or "
                "'no space left'; give a container --shm-size=1g or --ipc=host"
            )
        if gpus and self.locked_bytes is not None and not self.locked_unlimited:
            lines.append(
                f"locked memory (memlock) is limited to {size_text(self.locked_bytes)}: layouts "
                "of several nodes over InfiniBand cannot register their buffers; give a "
                "container --ulimit memlock=-1, elsewhere raise it in limits.conf"
            )
        return lines


def memory_limits() -> MemoryLimits:
    """Return this process's limits; what it starts inherits them."""
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    unlimited = limit == resource.RLIM_INFINITY
    return MemoryLimits(
        shared_bytes=_size_of(_SHARED_MEMORY),
        locked_bytes=None if unlimited else limit,
        locked_unlimited=unlimited,
    )


def _size_of(folder: Path) -> int | None:
    try:
        status = os.statvfs(folder)
    except OSError:
        return None  # no such folder: macOS
    return status.f_frsize * status.f_blocks


def size_text(size_bytes: int) -> str:
    """Return a size for people: ``64 MiB``, ``1.5 GiB``."""
    if size_bytes >= 2**30:
        return f"{size_bytes / 2**30:.3g} GiB"
    if size_bytes >= 2**20:
        return f"{size_bytes / 2**20:.3g} MiB"
    return f"{size_bytes / 2**10:.3g} KiB"
