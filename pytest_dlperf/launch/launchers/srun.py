"""Launcher srun: Slurm starts the ranks, as one step of the job that the session is in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.launch.base import Launcher, Target, as_env, free_port, rank_command


class SrunLauncher(Launcher):
    """Starts the ranks of one node with srun (https://slurm.schedmd.com/srun.html)."""

    installed_by: ClassVar = "Slurm brings it: apt-get install slurm-client on Debian"
    place_variables: ClassVar = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS")

    def argv(self, case: Case, target: Target, workdir: Path) -> tuple[str, ...]:
        """Return the command; raise ``UsageError`` off the job's node, and for several."""
        if case.layout.nodes > 1:
            raise UsageError(
                f"launcher 'srun' starts one node, the layout {case.layout} has "
                f"{case.layout.nodes}; the framework's own launcher is started on each node of "
                "the job: leave launcher= out",
                subject=case.id,
            )
        if "SLURM_JOB_ID" not in os.environ:
            raise UsageError(
                "launcher 'srun' starts ranks in the job that the session is in, and "
                "this is none: another node could be chosen than the one that is measured; begin "
                "with sbatch, or let --dlperf-scheduler=slurm make a job of each case",
                subject=case.id,
            )
        # The session may be on another node of the job
        node = target.hosts[0].name if target.hosts else os.environ.get("SLURMD_NODENAME")
        if not node:
            raise UsageError(
                "launcher 'srun' starts ranks on the job's node, and this session is "
                "on another host (SLURMD_NODENAME is not set), whose devices it looked at; start "
                "pytest there: srun --pty pytest ...",
                subject=case.id,
            )
        return (
            "srun",
            "--nodes=1",
            f"--nodelist={node}",
            f"--ntasks={case.ranks}",
            # The step that pytest is in has the job's cores, and shares them
            "--overlap",
            # Threads of a rank have its whole share of the host
            "--cpu-bind=none",
            "--mpi=none",
            "--kill-on-bad-exit=1",
            "--unbuffered",
            "--export=ALL",
            *as_env(case, target),
            *rank_command(case, target, workdir, self.place_variables),
        )

    def env(self, case: Case, target: Target, workdir: Path) -> dict[str, str]:
        """Return where torch's ranks meet."""
        return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
