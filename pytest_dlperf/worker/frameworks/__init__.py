"""Frameworks, by the name in ``Case.framework``: a module path, as their import is costly."""

from __future__ import annotations

import importlib
from typing import Final

from pytest_dlperf.worker import stack
from pytest_dlperf.worker.arguments import Arguments
from pytest_dlperf.worker.frameworks.base import Framework

FRAMEWORKS: Final = {
    "torch": "pytest_dlperf.worker.frameworks.torch.framework:Torch",
    "paddle": "pytest_dlperf.worker.frameworks.paddle.framework:Paddle",
    "tensorflow": "pytest_dlperf.worker.frameworks.tensorflow.framework:Tensorflow",
}


def start(arguments: Arguments) -> Framework:
    """Import the framework of ``arguments``, join the job, and return it."""
    module, _, name = FRAMEWORKS[arguments.framework].partition(":")
    join = getattr(importlib.import_module(module), name)
    # Its import may have taken SIGTERM (Paddle), and a rank may hang while it joins the others.
    stack.watch(arguments.records, arguments.rank)
    stack.watch_crashes()
    framework: Framework = join(arguments)
    return framework
