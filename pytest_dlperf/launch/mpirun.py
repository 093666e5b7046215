"""mpirun of Open MPI: for Horovod that was built with MPI."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar, Final

from pytest_dlperf.launch.base import program_beside, rank_command
from pytest_dlperf.launch.program import MARK_VARIABLE

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_dlperf.core.case import Case
    from pytest_dlperf.launch.base import Target

#: What ranks on other hosts need of the plan's environment, and of the user's.
_FORWARDED: Final = (
    "PATH",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "PYTHONUNBUFFERED",
    "OMP_NUM_THREADS",
    "DLPERF_RUN",
)


class MpirunLauncher:
    """Starts ranks with mpirun (https://horovod.readthedocs.io/en/stable/mpi.html)."""

    private_logs: ClassVar = ""
    rank_logs: ClassVar = ""
    place_variables: ClassVar = (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_SIZE",
    )

    def argv(self, case: Case, target: Target, workdir: Path) -> tuple[str, ...]:
        """Return the command of the first node, which starts the ranks of all."""
        hosts = "${HOSTS}" if case.layout.nodes > 1 else f"localhost:{case.world_size}"
        forwarded = (*_FORWARDED, *([MARK_VARIABLE] if case.command else []))
        # Open MPI refuses root unless it is told; in containers there is nobody else.
        as_root = ("--allow-run-as-root",) if os.geteuid() == 0 else ()
        return (
            program_beside(target, "mpirun"),
            *as_root,
            "-np",
            str(case.world_size),
            "--host",
            hosts,
            # Threads of a rank have its whole share of the host, not the one core of its slot.
            "--bind-to",
            "none",
            *(word for name in forwarded for word in ("-x", name)),
            *rank_command(case, target, workdir, self.place_variables),
        )

    def env(self, case: Case, target: Target, workdir: Path) -> dict[str, str]:
        """Return what undoes a leftover of some outer cluster: ranks join each other by it."""
        return {"TF_CONFIG": ""}
