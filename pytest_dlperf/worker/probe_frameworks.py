"""What each framework tells of itself to a probe, without joining a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_dlperf.worker.nccl import nccl_of_paddle, nccl_version

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Probed(NamedTuple):
    """How to ask a framework: its module, and the function that asks."""

    module: str
    facts: Callable[[], dict[str, Any]]


def _torch() -> dict[str, Any]:
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


def _paddle() -> dict[str, Any]:
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


def _tensorflow() -> dict[str, Any]:
    import tensorflow

    build = tensorflow.sysconfig.get_build_info()
    return {
        "framework_version": tensorflow.__version__,
        "cuda": build.get("cuda_version"),
        "cudnn": build.get("cudnn_version"),
        "nccl": _nccl_of_horovod(),
        # Without __version__ it is Keras 2, within TensorFlow.
        "keras": getattr(tensorflow.keras, "__version__", "2"),
        "gpus": len(tensorflow.config.list_physical_devices("GPU")),
    }


def _nccl_of_horovod() -> str | None:
    # TensorFlow does not tell its own.
    try:
        import horovod.tensorflow as hvd
    except Exception:  # noqa: BLE001 - a rank that needs it says what is wrong with it
        return None
    return nccl_version(hvd.nccl_built())


#: Frameworks by their name in ``Case.framework``.
FRAMEWORKS: Mapping[str, Probed] = {
    "torch": Probed("torch", _torch),
    "paddle": Probed("paddle", _paddle),
    "tensorflow": Probed("tensorflow", _tensorflow),
}
