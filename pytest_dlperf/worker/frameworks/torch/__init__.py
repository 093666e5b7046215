"""PyTorch in a rank; here what a probe asks it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_dlperf.core.wire_records import ProbeAnswer


def probe() -> ProbeAnswer:
    """Return the version of PyTorch here, of its libraries, and the GPUs that it sees."""
    import torch

    nccl = None
    if torch.cuda.is_available() and torch.distributed.is_nccl_available():
        nccl = ".".join(map(str, torch.cuda.nccl.version()))
    return {
        "framework_version": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "nccl": nccl,
        "gpus": torch.cuda.device_count(),
    }
