"""TensorFlow in a rank; here what a probe asks it and its Horovod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_dlperf.worker.frameworks import nccl_version

if TYPE_CHECKING:
    from pytest_dlperf.core.wire_records import ProbeAnswer


def probe() -> ProbeAnswer:
    """Return the version of TensorFlow here, of its libraries, and the GPUs that it sees."""
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
    # TensorFlow does not report its own.
    try:
        import horovod.tensorflow as hvd
    except Exception:  # noqa: BLE001 - a rank that needs it reports what is wrong with it
        return None
    return nccl_version(hvd.nccl_built())


def horovod_operations(hvd: Any) -> dict[str, bool]:
    """Return what this Horovod was built with, by name; ``hvd`` is its module for a framework."""
    return {
        "nccl": bool(hvd.nccl_built()),
        "mpi": bool(hvd.mpi_built()),
        "gloo": bool(hvd.gloo_built()),
        "cuda": bool(hvd.cuda_built()),
        "rocm": bool(hvd.rocm_built()),
    }
