"""Checks before a launch: versions, data and hardware that a case needs."""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_dlperf.core.case import GPU_PRECISIONS, NO_FRAMEWORK, Case
from pytest_dlperf.core.errors import CaseError, NotRunError
from pytest_dlperf.core.frameworks import FRAMEWORKS, TRACED

_NUMBERS = re.compile(r"\d+(?:\.\d+){1,2}")


def check_version(framework: str, version: str, *, where: str = "", keras_2: bool = False) -> None:
    """Raise ``NotRunError`` if the worker does not run on ``version`` of ``framework``.

    ``where`` says where it was found, if not here; ``keras_2`` that this TensorFlow, however
    new, uses Keras 2. A version that is not a number, or 0.0 (Paddle's own builds), will do.
    """
    match = _NUMBERS.match(version)
    numbers = tuple(map(int, match[0].split("."))) if match else ()
    if not any(numbers[:2]):
        return
    bounds = FRAMEWORKS[framework]
    name, wanted = f"{framework} {version}{where and ' '}{where}", requirement(framework)
    if numbers < bounds.lowest:
        lowest = ".".join(map(str, bounds.lowest))
        raise NotRunError(
            f"{name} is too old: ranks need {lowest} or newer, {bounds.needed}",
            remedy=f"install {framework}{wanted}",
        )
    if bounds.too_new is not None and numbers >= bounds.too_new and not keras_2:
        raise NotRunError(
            f"{name} is too new: {bounds.wrong}",
            remedy=f"install {framework}{wanted}, or tf_keras with it, and set "
            "TF_USE_LEGACY_KERAS=1",
        )


def requirement(framework: str) -> str:
    """Return the versions of ``framework`` that will do, as pip reads them: ``>=2.12,<2.16``."""
    bounds = FRAMEWORKS[framework]
    below = f",<{'.'.join(map(str, bounds.too_new))}" if bounds.too_new else ""
    return f">={'.'.join(map(str, bounds.lowest))}{below}"


#: First CUDA compute capability with tensor cores for a precision: Ampere (NVIDIA Ampere GA100
#: whitepaper), and for float8 Ada (NVIDIA Ada GPU architecture whitepaper).
_LEAST_CAPABILITY: Final = {"bf16": 8.0, "tf32": 8.0, "fp8": 8.9}
#: The first Python that no TensorFlow with Keras 2 has wheels for.
_PYTHON_WITHOUT_TENSORFLOW: Final = (3, 12)


#: Distributions that train in float8.
_FLOAT8: Final = ("torchao", "transformer_engine")


@dataclass(frozen=True, kw_only=True, slots=True)
class Installed:
    """What an environment has of the frameworks, by its packages' metadata."""

    #: Version by framework; of those that are there.
    frameworks: Mapping[str, str]
    horovod: bool
    legacy_keras: bool
    #: Whether there is a package that trains in float8.
    float8: bool
    #: Such as ``3.11``.
    python: str


def installed_here() -> Installed:
    """Return what this environment has."""
    versions = {name: framework_version(name) for name in FRAMEWORKS}
    return Installed(
        frameworks={name: version for name, version in versions.items() if version is not None},
        horovod=_version_of("horovod") is not None,
        legacy_keras=legacy_keras(),
        float8=any(_version_of(name) is not None for name in _FLOAT8),
        python=".".join(map(str, sys.version_info[:2])),
    )


def framework_version(framework: str) -> str | None:
    """Return the installed version of ``framework``; None if it is not installed."""
    versions = (_version_of(distribution) for distribution in FRAMEWORKS[framework].distributions)
    return next((version for version in versions if version is not None), None)


def _version_of(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def legacy_keras() -> bool:
    """Return whether this environment makes a new TensorFlow use Keras 2."""
    # The values are those that TensorFlow itself looks for.
    wished = os.environ.get("TF_USE_LEGACY_KERAS") in {"1", "true", "True"}
    return wished and _version_of("tf_keras") is not None


def _needs_horovod(case: Case) -> bool:
    return (
        case.framework == "tensorflow"
        and case.world_size > 1
        and case.launcher != "tf-multiworker"
    )


def check_possible(
    case: Case,
    *,
    compute_capability: float | None,
    framework_known: bool = False,
    installed: Installed | None = None,
) -> None:
    """Raise ``NotRunError`` if ``case`` cannot run on this machine at all.

    ``compute_capability`` is that of this machine's GPUs, None if unknown. With
    ``framework_known`` this environment is not asked for the framework: another has it.
    ``installed`` is what the target's environment has, where that is not this one.
    """
    has_horovod = framework_known and installed is None  # what is not asked for is believed
    installed = installed or installed_here()
    if not framework_known and case.framework != NO_FRAMEWORK:
        _check_framework(case, installed)
    if _needs_horovod(case) and not (has_horovod or installed.horovod):
        raise NotRunError(
            f"Horovod is not installed, and {case.world_size} ranks of tensorflow need it",
            remedy="HOROVOD_WITH_TENSORFLOW=1 pip install --no-build-isolation horovod builds it, "
            "and launcher='tf-multiworker' does without",
        )
    if case.framework == "jax" and case.workload and case.precision == "amp":
        raise NotRunError(
            "precision amp is float16 with loss scaling, which JAX does not bring",
            remedy="name bf16",
        )
    if case.layout.device == "cpu" and case.precision in GPU_PRECISIONS:
        # Paddle has no bf16 on a CPU either: see below.
        suitable = "fp32" if case.framework == "paddle" else "bf16"
        raise NotRunError(
            f"precision {case.precision} has no CPU kernels",
            remedy=f"name {suitable}, or run it on a GPU",
        )
    if case.layout.device == "cpu" and case.framework == "paddle" and case.precision == "bf16":
        raise NotRunError(
            "Paddle's autocast does nothing on a CPU: bf16 would be computed in float32 without "
            "a word",
            remedy="run it on a GPU, or name fp32",
        )
    least = _LEAST_CAPABILITY.get(case.precision)
    if (
        case.layout.device == "gpu"
        and least is not None
        and compute_capability is not None
        and compute_capability < least
    ):
        raise NotRunError(
            f"precision {case.precision} needs a GPU of compute capability {least} or more, "
            f"this one has {compute_capability}"
        )
    if case.precision == "fp8" and not case.command:
        _check_fp8(case, None if framework_known else installed)


def check_traceable(case: Case) -> None:
    """Raise ``NotRunError`` if the cost of a step of ``case`` cannot be traced at all."""
    if case.command:
        raise NotRunError(
            "the cost of a program (command=) cannot be traced, as nobody sees its step",
            remedy="let a workload build the step",
        )
    if case.framework not in TRACED:
        raise NotRunError(
            f"a step of {case.framework} cannot be traced; traced are those of "
            f"{' and '.join(TRACED)}"
        )


def _check_fp8(case: Case, installed: Installed | None) -> None:
    """Raise ``NotRunError`` where no training in float8 is possible; None: it is not known."""
    if case.framework != "torch":
        raise NotRunError(
            f"precision fp8 is known of PyTorch only, and the case is of {case.framework}",
            remedy="name bf16",
        )
    if case.layout.device == "gpu" and installed is not None and not installed.float8:
        raise NotRunError(
            "precision fp8 needs torchao or Transformer Engine, and neither is installed",
            remedy="pip install torchao",
        )


def _check_framework(case: Case, installed: Installed) -> None:
    """Raise ``NotRunError`` if the environment lacks the framework, or has one that won't do.

    A user's own program may need another version, so none is checked.
    """
    version = installed.frameworks.get(case.framework)
    if version is None:
        without = "; framework=None is for a program that needs none" if case.command else ""
        raise NotRunError(
            f"{case.framework} is not installed",
            remedy=f"{_remedy(case, installed.python)}{without}",
        )
    if not case.command:
        check_version(case.framework, version, keras_2=installed.legacy_keras)


def _remedy(case: Case, here: str) -> str:
    on_gpu = case.framework == "paddle" and case.layout.device == "gpu"
    extra = "paddle-gpu" if on_gpu else case.framework
    install = f"pip install 'pytest-dlperf[{extra}]' brings it"
    python = tuple(int(part) for part in here.split("."))
    if case.framework == "tensorflow" and python >= _PYTHON_WITHOUT_TENSORFLOW:
        return f"{install} on Python 3.11 or lower, and this is {here}"
    return install


def check_data(case: Case, folder: Path) -> None:
    """Raise ``CaseError`` if the data folder of ``case`` is not a directory."""
    if not folder.is_dir():
        raise CaseError(
            f"--dlperf-data={folder} is not a directory",
            remedy="name the one that has the data sets (docs/data.md)",
            subject=case.id,
        )
