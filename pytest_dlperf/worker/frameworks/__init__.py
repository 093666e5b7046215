"""Frameworks, by the name in ``Case.framework``: a module path, as their import is costly."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pytest_dlperf.worker.arguments import Arguments
    from pytest_dlperf.worker.frameworks.base import Framework

FRAMEWORKS: Final = {
    "torch": "pytest_dlperf.worker.frameworks.torch_:Torch",
    "paddle": "pytest_dlperf.worker.frameworks.paddle_:Paddle",
    "tensorflow": "pytest_dlperf.worker.frameworks.tensorflow_:Tensorflow",
}


def start(arguments: Arguments) -> Framework:
    """Import the framework of ``arguments``, join the job, and return it."""
    module, _, name = FRAMEWORKS[arguments.framework].partition(":")
    framework: Framework = getattr(importlib.import_module(module), name)(arguments)
    return framework
