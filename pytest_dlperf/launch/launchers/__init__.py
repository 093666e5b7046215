"""The launchers, one module each: which one starts a case, and whether its program is there."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from pytest_dlperf.core.case import NO_FRAMEWORK, Case
from pytest_dlperf.core.errors import NotRunError, lookup
from pytest_dlperf.core.frameworks import FRAMEWORKS
from pytest_dlperf.launch.base import Launcher, find_program

#: Module of this folder and class of every launcher, by the name in ``Case.launcher``.
LAUNCHERS: Final = {
    "accelerate": "accelerate:AccelerateLauncher",
    "deepspeed": "deepspeed:DeepspeedLauncher",
    "horovodrun": "horovodrun:HorovodrunLauncher",
    "jax-processes": "local:JaxProcessesLauncher",
    "local": "local:LocalLauncher",
    "mpirun": "mpirun:MpirunLauncher",
    "none": "local:NoLauncher",
    "tf-multiworker": "local:TfMultiworkerLauncher",
    "srun": "srun:SrunLauncher",
    "torchrun": "torchrun:TorchrunLauncher",
    "paddle.distributed.launch": "paddle_launch:PaddleLauncher",
}


def launcher_name(case: Case) -> str:
    """Return the launcher of ``case``: its own, or the framework's; ``local`` for one rank."""
    if case.launcher != "auto":
        return case.launcher
    if case.ranks == 1:
        return "local"
    if case.framework == NO_FRAMEWORK:
        return "none"
    return lookup("framework", case.framework, FRAMEWORKS).launcher


def launcher_of(case: Case) -> Launcher:
    """Return the launcher of ``case``; raise ``UnknownNameError``, which lists what is known."""
    module, _, name = lookup("launcher", launcher_name(case), LAUNCHERS).partition(":")
    found: type[Launcher] = getattr(import_module(f"{__name__}.{module}"), name)
    return found()


def program_of(case: Case) -> str:
    """Return the program that starts the ranks of ``case``; empty if there is none to install."""
    return launcher_name(case) if launcher_of(case).installed_by else ""


def check_program(case: Case, python: str) -> None:
    """Raise ``NotRunError`` if the launcher of ``case`` is a program that is not on this host.

    It is looked for in the folder of ``python``, the interpreter of the ranks, and on PATH.
    """
    name = program_of(case)
    if name and find_program(python, name) is None:
        raise NotRunError(
            f"{name}, which starts the {case.ranks} ranks, is neither next to {python} "
            "nor on PATH",
            remedy=launcher_of(case).installed_by,
        )
