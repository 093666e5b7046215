"""Launcher torchrun: one agent per node, one rank per device."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pytest_dlperf.core.case import Case
from pytest_dlperf.launch.base import (
    NOT_STANDALONE,
    Launcher,
    Target,
    find_program,
    free_port,
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
            meeting = "static"
            # The loopback address, since a host's own name need not resolve.
            endpoint = f"127.0.0.1:{free_port()}"
            place: tuple[str, ...] = ("--node-rank=0",)
        else:
            meeting, endpoint = target.rendezvous, "${MASTER_ADDR}:${MASTER_PORT}"
            # With c10d nodes get their numbers in the order in which they join.
            place = () if meeting == "c10d" else ("--node-rank=${NODE_RANK}",)
        rendezvous = (
            f"--nnodes={layout.nodes}",
            *place,
            # Said, since torchrun would take PET_RDZV_BACKEND and PET_RDZV_ENDPOINT.
            f"--rdzv-backend={meeting}",
            f"--rdzv-endpoint={endpoint}",
            # Keeps a node that is at another case or run from joining this one.
            f"--rdzv-id={case.id}-{workdir.name}",
        )
        if layout.nodes > 1 and target.node_part is not None:
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

    def env(self, case: Case, target: Target, workdir: Path) -> dict[str, str]:
        """Return what keeps the user's variables from choosing another rendezvous."""
        return dict(NOT_STANDALONE)


def _torchrun(target: Target) -> tuple[str, ...]:
    # Behind a prefix the interpreter is known, but not the folder of its programs; and an overlay
    # with torch does not install torchrun into the environment.
    if target.prefix or (target.overlay and find_program(target.python, "torchrun") is None):
        return (target.python, "-m", "torch.distributed.run")
    return (program_beside(target, "torchrun"),)
