"""Launcher mpirun of Open MPI, for PyTorch, JAX and Horovod that was built with MPI."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar, Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.wire import MARK_VARIABLE
from pytest_dlperf.launch.base import (
    Launcher,
    Target,
    as_env,
    free_port,
    program_beside,
    rank_command,
)

_LIBRARIES: Final = "LD_LIBRARY_PATH"
#: What ranks on other hosts need of the plan's environment, and of the user's.
_FORWARDED: Final = (
    "PATH",
    _LIBRARIES,
    "PYTHONPATH",
    "PYTHONUNBUFFERED",
    "OMP_NUM_THREADS",
    "DLPERF_RUN",
)
#: Where ranks meet, by framework.
_MEETING: Final = {"torch": ("MASTER_ADDR", "MASTER_PORT"), "jax": ("JAX_COORDINATOR_ADDRESS",)}


class MpirunLauncher(Launcher):
    """Starts ranks with mpirun (https://horovod.readthedocs.io/en/stable/mpi.html)."""

    installed_by: ClassVar = (
        "Open MPI brings it: apt-get install openmpi-bin on Debian, and a Horovod that was "
        "built with it"
    )
    starts_all_nodes: ClassVar = True
    place_variables: ClassVar = (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_SIZE",
    )

    def argv(self, case: Case, target: Target, workdir: Path) -> tuple[str, ...]:
        """Return the command of the first node, which starts the ranks of all."""
        hosts = "${HOSTS}" if case.layout.nodes > 1 else f"localhost:{case.ranks}"
        forwarded = (
            *(name for name in _FORWARDED if name in os.environ or name != _LIBRARIES),
            *_MEETING.get(case.framework, ()),
            *([MARK_VARIABLE] if case.command else []),
        )
        # Open MPI refuses root without this option, and containers often run as root.
        as_root = ("--allow-run-as-root",) if os.geteuid() == 0 else ()
        remote: tuple[str, ...] = ()
        if case.layout.nodes > 1:
            remote = (
                # Its daemons stay below the remote shell, which ends them with the run.
                "--leave-session-attached",
                # Not by srun within an allocation: the remote shell goes there by itself.
                *("--mca", "plm", "rsh"),
                *("--mca", "plm_rsh_agent", str(workdir / "rsh" / "ssh")),
                # All from the first node, which alone can reach the others.
                *("--mca", "plm_rsh_no_tree_spawn", "1"),
                # A container's bridge looks like one network on all nodes, and connects none.
                *("--mca", "oob_tcp_if_include", "${NETWORK}"),
                *("--mca", "btl_tcp_if_include", "${NETWORK}"),
            )
        return (
            program_beside(target, "mpirun"),
            *as_root,
            *remote,
            "-np",
            str(case.ranks),
            "--host",
            hosts,
            # Threads of a rank have its whole share of the host, not the one core of its slot.
            "--bind-to",
            "none",
            *(word for name in forwarded for word in ("-x", name)),
            *as_env(case, target),
            *rank_command(case, target, workdir, self.place_variables),
        )

    def env(self, case: Case, target: Target, workdir: Path) -> dict[str, str]:
        """Return where ranks of torch and JAX meet; for TensorFlow an empty TF_CONFIG."""
        if case.framework not in _MEETING:
            return {"TF_CONFIG": ""}
        address, port = "${MASTER_ADDR}", "${MASTER_PORT}"
        if case.layout.nodes == 1:
            address, port = "127.0.0.1", str(free_port())
        if case.framework == "jax":
            meeting = {"JAX_COORDINATOR_ADDRESS": f"{address}:{port}"}
            if case.layout.nodes == 1:
                # Of its own accord JAX listens on all interfaces.
                meeting["JAX_COORDINATOR_BIND_ADDRESS"] = f"{address}:{port}"
            return meeting
        return {"MASTER_ADDR": address, "MASTER_PORT": port}
