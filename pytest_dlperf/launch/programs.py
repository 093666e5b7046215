"""Check that a case's launcher program is installed, and say which package installs it."""

from __future__ import annotations

from typing import Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import NotRunError
from pytest_dlperf.launch.base import find_program
from pytest_dlperf.launch.plan import launcher_name

#: Launchers that are programs.
PROGRAMS: Final = ("torchrun", "horovodrun", "mpirun")
#: How each is installed.
_BROUGHT_BY: Final = {
    "torchrun": "the package torch brings it: pip install 'pytest-dlperf[torch]'",
    "horovodrun": "the package horovod brings it: HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITH_GLOO=1 "
    "pip install --no-build-isolation horovod (docs/tensorflow.md)",
    "mpirun": "Open MPI brings it: apt-get install openmpi-bin on Debian, and a Horovod that was "
    "built with it",
}


def check_program(case: Case, python: str) -> None:
    """Raise ``NotRunError`` if the launcher of ``case`` is a program that is not on this host.

    It is looked for in the folder of ``python``, the interpreter of the ranks, and on PATH.
    """
    name = launcher_name(case)
    if name in _BROUGHT_BY and find_program(python, name) is None:
        raise NotRunError(
            f"{name}, which starts the {case.world_size} ranks, is neither next to {python} "
            f"nor on PATH; {_BROUGHT_BY[name]}"
        )
