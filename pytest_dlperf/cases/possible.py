"""Says what makes a case impossible here, before anything starts."""

from __future__ import annotations

import importlib.metadata
from typing import Final

from pytest_dlperf.core.case import GPU_PRECISIONS, Case
from pytest_dlperf.core.errors import NotRunError

#: Distributions that bring a framework, by its name in ``Case.framework``.
DISTRIBUTIONS: Final = {
    "torch": ("torch",),
    "paddle": ("paddlepaddle", "paddlepaddle-gpu"),
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
}
#: First CUDA compute capability with bfloat16 and TF32 tensor cores (Ampere; NVIDIA Ampere
#: GA100 whitepaper).
_AMPERE: Final = 8.0


def framework_version(framework: str) -> str | None:
    """Return the installed version of ``framework``; None if it is not installed."""
    versions = (_version_of(distribution) for distribution in DISTRIBUTIONS[framework])
    return next((version for version in versions if version is not None), None)


def _version_of(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _needs_horovod(case: Case) -> bool:
    return (
        case.framework == "tensorflow"
        and case.world_size > 1
        and case.launcher != "tf-multiworker"
    )


def check_possible(
    case: Case, *, compute_capability: float | None, framework_known: bool = False
) -> None:
    """Raise ``NotRunError`` if ``case`` cannot run here, whatever is tried.

    ``compute_capability`` is that of this machine's GPUs, None if unknown. With
    ``framework_known`` this environment is not asked for the framework: another has it.
    """
    if not framework_known and framework_version(case.framework) is None:
        raise NotRunError(
            f"{case.framework} is not installed; pip install 'pytest-dlperf[{case.framework}]' "
            "brings it"
        )
    if _needs_horovod(case) and _version_of("horovod") is None:
        raise NotRunError(
            f"Horovod is not installed, and {case.world_size} ranks of tensorflow need it; "
            "HOROVOD_WITH_TENSORFLOW=1 pip install --no-build-isolation horovod builds it, and "
            "launcher='tf-multiworker' does without"
        )
    if case.layout.device == "cpu" and case.precision in GPU_PRECISIONS:
        raise NotRunError(
            f"precision {case.precision} has no CPU kernels; name bf16, or run it on a GPU"
        )
    if case.layout.device == "cpu" and case.framework == "paddle" and case.precision == "bf16":
        raise NotRunError(
            "Paddle's autocast does nothing on a CPU: bf16 would be computed in float32 without "
            "a word; run it on a GPU, or name fp32"
        )
    if (
        case.layout.device == "gpu"
        and case.precision in {"bf16", "tf32"}
        and compute_capability is not None
        and compute_capability < _AMPERE
    ):
        raise NotRunError(
            f"precision {case.precision} needs a GPU of compute capability {_AMPERE} or more, "
            f"this one has {compute_capability}"
        )
