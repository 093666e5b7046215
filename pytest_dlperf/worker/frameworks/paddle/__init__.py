"""Paddle in a rank; here what a probe asks it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_dlperf.worker.frameworks import nccl_version

if TYPE_CHECKING:
    from pytest_dlperf.core.wire_records import ProbeAnswer


def probe() -> ProbeAnswer:
    """Return the version of Paddle here, of its libraries, and the GPUs that it sees."""
    import paddle

    with_cuda = paddle.device.is_compiled_with_cuda()
    return {
        "framework_version": paddle.__version__,
        # The CPU build answers "False" where others answer a version.
        "cuda": paddle.version.cuda() if with_cuda else None,
        "cudnn": paddle.version.cudnn() if with_cuda else None,
        "nccl": nccl_of_paddle(paddle.version) if with_cuda else None,
        "gpus": paddle.device.cuda.device_count() if with_cuda else 0,
    }


def nccl_of_paddle(version: Any) -> str | None:
    """Return the version in ``paddle.version``; None before Paddle 3, which has no ``nccl``."""
    read = getattr(version, "nccl", None)
    code = str(read()) if read is not None else ""
    return nccl_version(int(code)) if code.isdecimal() else None
