"""Imports a workload, and has it build its step."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.job import Job


def build(workload: str, job: Job) -> Callable[[], Any]:
    """Return the step of ``workload``, as ``module:function``; raise ``WorkerFailure``."""
    module_name, _, function_name = workload.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        searched = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        raise WorkerFailure(
            "workload-not-found",
            f"workload {workload!r}: no module named {error.name!r} on the ranks' path; put it "
            "next to the test file or into pytest's rootdir, or name its folder in pytest's ini "
            f"pythonpath or in PYTHONPATH. Searched were {', '.join(searched)}",
        ) from error
    build = getattr(module, function_name, None)
    if build is None:
        raise WorkerFailure(
            "workload-not-found",
            f"workload {workload!r}: {module.__file__} has no function {function_name!r}",
        )
    step: Callable[[], Any] = build(job)
    if not callable(step):
        raise WorkerFailure(
            "workload-returned-nothing",
            f"workload {workload!r}: {function_name}(job) returned {step!r}; it must return the "
            "function that does one training iteration and returns its loss",
        )
    return step
