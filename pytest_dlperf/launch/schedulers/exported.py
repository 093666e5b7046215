"""The variables of this environment that travel to a job: an allowlist of names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Where programs and packages lie, who runs them, and what pytest is told.
_NAMES: Final = frozenset({
    "CONDA_PREFIX", "CUDA_HOME", "DLPERF_MACHINE_CLASS", "DLPERF_RUNTIME_DIR", "HOME", "LANG",
    "LC_ALL", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "PYTEST_ADDOPTS", "PYTEST_PLUGINS",
    "PYTHONPATH", "SHELL", "TF_USE_LEGACY_KERAS", "TZ", "USER", "VIRTUAL_ENV",
})  # fmt: skip
#: Begin the names of variables that set how a training runs, and keep no secret.
_TUNING: Final = (
    "CUBLAS_", "CUDNN_", "FI_", "FLAGS_", "GLOO_", "HOROVOD_", "KMP_", "MKL_", "NCCL_",
    "NVIDIA_TF32_OVERRIDE", "OMPI_MCA_", "OMP_", "PYTORCH_", "TF_ENABLE_", "TF_GPU_", "TF_XLA_",
    "TORCHINDUCTOR_", "TORCH_", "UCX_", "XLA_",
)  # fmt: skip


def exported_names(environment: Iterable[str]) -> tuple[str, ...]:
    """Return the names that travel, sorted; their values never stand in a command."""
    return tuple(
        sorted(name for name in environment if name in _NAMES or name.startswith(_TUNING))
    )


def tuning_names(environment: Iterable[str]) -> tuple[str, ...]:
    """Return the names of variables that set how a training runs, and its machine's class."""
    return tuple(
        sorted(n for n in environment if n.startswith(_TUNING) or n == "DLPERF_MACHINE_CLASS")
    )
