"""Launcher torchrun: one agent per node, one rank per device."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pytest_dlperf.core.case import Case
from pytest_dlperf.launch.base import (
    Launcher,
    Target,
    find_program,
    join_timeout_s,
    program_beside,
    rank_command,
)


class TorchrunLauncher(Launcher):
    """Starts ranks with torchrun (https://docs.pytorch.org/docs/stable/elastic/run.html)."""

    installed_by: ClassVar = "the package torch brings it: pip install 'pytest-dlperf[torch]'"
    rank_logs: ClassVar = "torchrun/*/attempt_0/*/std*.log"

    def argv(self, case: Case, target: Target, workdir: Path) -> tuple[str, ...]:
        """Return the command of one node; on several, each runs the same."""
        layout = case.layout
        if layout.nodes == 1:
            # The loopback address, since a host's own name need not resolve.
            rendezvous: tuple[str, ...] = ("--standalone", "--local-addr=127.0.0.1")
        else:
            place: tuple[str, ...] = (
                "--node-rank=${NODE_RANK}",
                "--master-addr=${MASTER_ADDR}",
                "--master-port=${MASTER_PORT}",
            )
            if target.rendezvous == "c10d":
                # Nodes then get their numbers in the order in which they join.
                place = (
                    "--rdzv-backend=c10d",
                    "--rdzv-endpoint=${MASTER_ADDR}:${MASTER_PORT}",
                )
            rendezvous = (
                f"--nnodes={layout.nodes}",
                *place,
                # Keeps a node that is at another case or run from joining this one.
                f"--rdzv-id={case.id}-{workdir.name}",
            )
            if target.node_part is not None:
                timeout_s = join_timeout_s(case, target.node_part)
                rendezvous += (f"--rdzv-conf=timeout={timeout_s:.0f}",)
        return (
            *_torchrun(target),
            *rendezvous,
            f"--nproc-per-node={case.ranks_per_node}",
            "--max-restarts=0",
            # Without a folder torchrun leaves one behind in /tmp at each launch.
            f"--log-dir={workdir / 'torchrun'}",
            "--tee=3",
            "--no-python",
            *rank_command(case, target, workdir, self.place_variables),
        )


def _torchrun(target: Target) -> tuple[str, ...]:
    # Behind a prefix the interpreter is known, but not the folder of its programs; and an overlay
    # with torch does not install torchrun into the environment.
    if target.prefix or (target.overlay and find_program(target.python, "torchrun") is None):
        return (target.python, "-m", "torch.distributed.run")
    return (program_beside(target, "torchrun"),)
