"""What is sent to other hosts and to jobs: this package and environment variables."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.launch.remote import with_environment

if TYPE_CHECKING:
    from pytest_dlperf.launch.base import Target


_PACKAGE: Final = Path(__file__).resolve().parents[2]
#: Not needed by ranks: tests, which a later session would collect there, and baselines.
_LEFT_OUT: Final = ("__pycache__", "test_*.py", "baselines")


def copy_package(folder: Path) -> None:
    """Copy this package into ``folder``, unless that has a copy. Raises ``CaseError``.

    The folder that this package is installed in must not be on another interpreter's path: the
    other packages there would hide that interpreter's own. And a container may not have it.
    """
    target = folder / _PACKAGE.name
    if target.exists():
        return
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=folder)) / _PACKAGE.name
        shutil.copytree(_PACKAGE, partial, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        try:
            partial.rename(target)
        except OSError:
            if not target.exists():  # else another process of this session was first
                raise
        shutil.rmtree(partial.parent)
    except OSError as error:
        raise CaseError(f"cannot copy the worker to {folder}: {error}") from error


def program_in_copy(folder: Path, module: ModuleType) -> Path:
    """Return where the file of ``module`` is in the copy that ``folder`` holds."""
    assert module.__file__ is not None
    return folder / Path(module.__file__).resolve().relative_to(_PACKAGE.parent)


#: Where programs and packages are, who runs them, and settings of pytest. Given to jobs.
_NAMES: Final = frozenset({
    "CONDA_PREFIX", "CUDA_HOME", "DLPERF_MACHINE_CLASS", "DLPERF_RUNTIME_DIR", "HOME", "LANG",
    "LC_ALL", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "PYTEST_ADDOPTS", "PYTEST_PLUGINS",
    "PYTHONPATH", "SHELL", "TF_USE_LEGACY_KERAS", "TZ", "USER", "VIRTUAL_ENV",
})  # fmt: skip
#: Prefixes of variables that configure a training and hold no secret. Given to jobs.
_JOB_TUNING: Final = (
    "CUBLAS_", "CUDNN_", "FI_", "FLAGS_", "GLOO_", "HOROVOD_", "KMP_", "MKL_", "NCCL_",
    "NVIDIA_TF32_OVERRIDE", "OMPI_MCA_", "OMP_", "PYTORCH_", "TF_ENABLE_", "TF_GPU_", "TF_XLA_",
    "TORCHINDUCTOR_", "TORCH_", "UCX_", "XLA_",
)  # fmt: skip
#: The file of ``--dlperf-env``'s values in a run's folder.
ENVIRONMENT_FILE: Final = "environment.json"
#: Prefixes of variables that configure libraries and hold no secret. Ranks on other hosts always
#: get them, so that a run on several hosts is configured like one on this host.
_TUNING: Final = (
    "FI_", "FLAGS_", "GLOO_", "KMP_", "MKL_", "NCCL_", "PYTORCH_", "TF_", "TORCH_", "TP_", "UCX_",
    "XLA_",
)  # fmt: skip
#: Set by launchers of another job.
_LAUNCHERS_OWN: Final = frozenset({"TF_CONFIG"})


def exported_names(environment: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the variables that a job gets, sorted; no command has their values."""
    return tuple(
        sorted(name for name in environment if name in _NAMES or name.startswith(_JOB_TUNING))
    )


def tuning() -> dict[str, str]:
    """Return the variables that ranks on other hosts always get."""
    return {
        name: text
        for name, text in os.environ.items()
        if name.startswith(_TUNING)
        and name not in _LAUNCHERS_OWN
        and not name.startswith("TORCHELASTIC")
    }


def environment_files(target: Target) -> dict[str, str]:
    """Return the file of ``--dlperf-env``'s variables; empty if there are none."""
    return {ENVIRONMENT_FILE: json.dumps(dict(target.travelling))} if target.travelling else {}


def with_travelling(target: Target, workdir: Path, argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command of a rank, which reads ``--dlperf-env``'s variables from their file."""
    if not target.travelling or not target.hosts:
        return argv
    program = program_in_copy(target.package_folder, with_environment)
    return (target.python, "-I", str(program), str(workdir / ENVIRONMENT_FILE), *argv)
