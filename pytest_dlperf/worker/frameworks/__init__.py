"""Starts a rank's framework, which is imported only then."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from pytest_dlperf.worker import failure

if TYPE_CHECKING:
    # The probe imports this package on Pythons that are too old for these modules.
    from pytest_dlperf.worker.arguments import Arguments
    from pytest_dlperf.worker.frameworks.base import Framework

#: Module and class by the name in ``Case.framework``.
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
    failure.watch(arguments.folder, arguments.rank)
    failure.watch_crashes()
    framework: Framework = join(arguments)
    return framework
