"""Launcher horovodrun, over gloo: starts all ranks itself, on other hosts through ssh."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pytest_dlperf.core.case import Case
from pytest_dlperf.launch.base import Launcher, Target, program_beside, rank_command


class HorovodrunLauncher(Launcher):
    """Starts ranks with horovodrun (https://horovod.readthedocs.io/en/stable/running.html)."""

    installed_by: ClassVar = (
        "the package horovod brings it: HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITH_GLOO=1 "
        "pip install --no-build-isolation horovod (docs/tensorflow.md)"
    )
    starts_all_nodes: ClassVar = True
    place_variables: ClassVar = ("HOROVOD_RANK", "HOROVOD_LOCAL_RANK", "HOROVOD_SIZE")

    def argv(self, case: Case, target: Target, workdir: Path) -> tuple[str, ...]:
        """Return the command of the first node, which starts the ranks of all."""
        hosts = "${HOSTS}" if case.layout.nodes > 1 else f"localhost:{case.ranks}"
        # It calls ssh by name: the first folder of its PATH has the run's remote shell.
        remote: tuple[str, ...] = ()
        if target.hosts and case.layout.nodes > 1:
            remote = ("/bin/sh", "-c", 'PATH="$0:$PATH" exec "$@"', str(workdir / "rsh"))
        interface: tuple[str, ...] = ()
        if remote:
            # Without it, it starts a service on each host to find an interface that all have.
            interface = ("--network-interfaces", "${INTERFACE}")
        return (
            *remote,
            program_beside(target, "horovodrun"),
            # Named, since it prefers MPI where it was built with it.
            "--gloo",
            # Its cache is a folder in the user's home.
            "--disable-cache",
            f"--num-proc={case.ranks}",
            f"--hosts={hosts}",
            *interface,
            *rank_command(case, target, workdir, self.place_variables),
        )

    def env(self, case: Case, target: Target, workdir: Path) -> dict[str, str]:
        """Return an empty TF_CONFIG: TensorFlow would use one left from an outer cluster."""
        return {"TF_CONFIG": ""}
