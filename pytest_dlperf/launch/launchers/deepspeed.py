"""Launcher deepspeed: starts all ranks of one node."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.launch.base import Launcher, Target, free_port, program_beside, rank_command


class DeepspeedLauncher(Launcher):
    """Starts ranks with deepspeed (https://www.deepspeed.ai/getting-started)."""

    installed_by: ClassVar = "the package deepspeed brings it: pip install deepspeed"

    def argv(self, case: Case, target: Target, workdir: Path) -> tuple[str, ...]:
        """Return the command; raise ``UsageError`` for several nodes."""
        layout = case.layout
        if layout.nodes > 1:
            raise UsageError(
                f"launcher 'deepspeed' starts one node, the layout {layout} has "
                f"{layout.nodes}; use launcher='torchrun', whose ranks deepspeed.initialize joins",
                subject=case.id,
            )
        # Only a program may know what to do with --local_rank
        plain = () if case.command else ("--no_local_rank",)
        return (
            program_beside(target, "deepspeed"),
            # A list of hosts at its usual place, /job/hostfile, would be another layout
            f"--hostfile={workdir / 'no-hostfile'}",
            _devices(case),
            "--master_addr=127.0.0.1",
            f"--master_port={free_port()}",
            "--no_python",
            *plain,
            *rank_command(case, target, workdir, self.place_variables),
        )


def _devices(case: Case) -> str:
    """Return the option for the devices; raise ``UsageError`` for GPUs that have other names.

    It deletes CUDA_VISIBLE_DEVICES and sets it again from what is named here: with ``--num_gpus``
    it would take the first GPUs of the host. On CPUs that option is the number of processes.
    """
    count = case.ranks_per_node
    if case.layout.device == "cpu":
        return f"--num_gpus={count}"
    outer = os.environ.get("CUDA_VISIBLE_DEVICES")
    chosen = outer.split(",")[:count] if outer else [str(i) for i in range(count)]
    if not all(gpu.strip().isdecimal() for gpu in chosen):
        raise UsageError(
            f"launcher 'deepspeed' takes numbers of GPUs, and CUDA_VISIBLE_DEVICES is "
            f"{outer}; give their numbers there, or use launcher='torchrun'",
            subject=case.id,
        )
    return f"--include=localhost:{','.join(gpu.strip() for gpu in chosen)}"
