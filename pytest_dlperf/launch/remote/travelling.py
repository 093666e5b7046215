"""Which of this session's environment the ranks on other hosts get: what is allowed by name."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_dlperf.launch.remote import with_environment
from pytest_dlperf.launch.remote.package_copy import program_in_copy

if TYPE_CHECKING:
    from pytest_dlperf.launch.base import Target

#: Where programs and packages lie, who runs them, and what pytest is told.
_NAMES: Final = frozenset({
    "CONDA_PREFIX", "CUDA_HOME", "DLPERF_MACHINE_CLASS", "DLPERF_RUNTIME_DIR", "HOME", "LANG",
    "LC_ALL", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "PYTEST_ADDOPTS", "PYTEST_PLUGINS",
    "PYTHONPATH", "SHELL", "TF_USE_LEGACY_KERAS", "TZ", "USER", "VIRTUAL_ENV",
})  # fmt: skip
#: Begin the names of variables that set how a training runs, and keep no secret.
_JOB_TUNING: Final = (
    "CUBLAS_", "CUDNN_", "FI_", "FLAGS_", "GLOO_", "HOROVOD_", "KMP_", "MKL_", "NCCL_",
    "NVIDIA_TF32_OVERRIDE", "OMPI_MCA_", "OMP_", "PYTORCH_", "TF_ENABLE_", "TF_GPU_", "TF_XLA_",
    "TORCHINDUCTOR_", "TORCH_", "UCX_", "XLA_",
)  # fmt: skip
#: The file of ``--dlperf-env``'s values in a run's folder.
ENVIRONMENT_FILE: Final = "environment.json"
#: Begin the names of variables that set how libraries train and talk, and keep no secret. They
#: travel by themselves, so that a run on several hosts is set as one on this host.
_TUNING: Final = (
    "FI_", "FLAGS_", "GLOO_", "KMP_", "MKL_", "NCCL_", "PYTORCH_", "TF_", "TORCH_", "TP_", "UCX_",
    "XLA_",
)  # fmt: skip
#: Set by launchers, for a job of their own.
_LAUNCHERS_OWN: Final = frozenset({"TF_CONFIG"})


def exported_names(environment: Iterable[str]) -> tuple[str, ...]:
    """Return the names that travel, sorted; their values never stand in a command."""
    return tuple(
        sorted(name for name in environment if name in _NAMES or name.startswith(_JOB_TUNING))
    )


def tuning_names(environment: Iterable[str]) -> tuple[str, ...]:
    """Return the names of variables that set how a training runs, and its machine's class."""
    return tuple(
        sorted(n for n in environment if n.startswith(_JOB_TUNING) or n == "DLPERF_MACHINE_CLASS")
    )


def tuning() -> dict[str, str]:
    """Return the variables that travel by themselves."""
    return {
        name: text
        for name, text in os.environ.items()
        if name.startswith(_TUNING)
        and name not in _LAUNCHERS_OWN
        and not name.startswith("TORCHELASTIC")
    }


def environment_files(target: Target) -> dict[str, str]:
    """Return the file of the values that the user lets travel; none if there are none."""
    return {ENVIRONMENT_FILE: json.dumps(dict(target.travelling))} if target.travelling else {}


def with_travelling(target: Target, workdir: Path, argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command of a rank that reads those values from the file."""
    if not target.travelling or not target.hosts:
        return argv
    program = program_in_copy(target.package_folder, with_environment)
    return (target.python, "-I", str(program), str(workdir / ENVIRONMENT_FILE), *argv)
