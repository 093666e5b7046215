"""Launcher ``paddle.distributed.launch``: one launcher per node, one rank per device."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pytest_dlperf.core.case import Case
from pytest_dlperf.launch.base import Launcher, Target, collective_timeout_s, rank_command


class PaddleLauncher(Launcher):
    """Starts ranks with ``python -m paddle.distributed.launch``.

    Never with ``--devices``: its values are entries of CUDA_VISIBLE_DEVICES, which differ by node,
    and not their numbers. By a number of processes each rank has the GPU of its number among those
    that are visible. Never with CUDA_VISIBLE_DEVICES on CPUs: any value of it ends
    Paddle's CPU build before a rank starts.
    """

    private_logs: ClassVar = "paddle-logs"
    rank_logs: ClassVar = "workerlog.*"
    place_variables: ClassVar = (
        "PADDLE_TRAINER_ID",
        "PADDLE_RANK_IN_NODE",
        "PADDLE_TRAINERS_NUM",
    )

    def argv(self, case: Case, target: Target, workdir: Path) -> tuple[str, ...]:
        """Return the command of one node; on several, each has its own ``--rank``."""
        layout = case.layout
        rendezvous: tuple[str, ...] = ()
        if layout.nodes > 1:
            rendezvous = (
                "--master=${MASTER_ADDR}:${MASTER_PORT}",
                f"--nnodes={layout.nodes}",
                "--rank=${NODE_RANK}",
            )
            if target.hosts:
                # By address: by its name the first node does not recognise itself.
                rendezvous = (
                    "--master=${MASTER_IP}:${MASTER_PORT}",
                    "--host=${NODE_IP}",
                    *rendezvous[1:],
                )
        return (
            target.python,
            "-m",
            "paddle.distributed.launch",
            *rendezvous,
            f"--nproc_per_node={case.ranks_per_node}",
            # When a rank fails, versions before 3 print the whole environment as an error.
            "--log_level=CRITICAL",
            "--max_restart=0",
            f"--log_dir={workdir / self.private_logs}",
            # It starts Python files and programs, not modules.
            *rank_command(case, target, workdir, self.place_variables),
        )

    def env(self, case: Case, target: Target, workdir: Path) -> dict[str, str]:
        """Return how long a collective waits; the launcher itself gives ranks their places."""
        return {"PADDLE_PG_TIMEOUT": f"{collective_timeout_s(case) * 1000:.0f}"}
