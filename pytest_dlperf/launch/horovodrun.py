"""horovodrun over gloo: starts the ranks itself, on other hosts through ssh."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pytest_dlperf.launch.base import program_beside, rank_command

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_dlperf.core.case import Case
    from pytest_dlperf.launch.base import Target


class HorovodrunLauncher:
    """Starts ranks with horovodrun (https://horovod.readthedocs.io/en/stable/running.html)."""

    private_logs: ClassVar = ""
    rank_logs: ClassVar = ""
    place_variables: ClassVar = ("HOROVOD_RANK", "HOROVOD_LOCAL_RANK", "HOROVOD_SIZE")

    def argv(self, case: Case, target: Target, workdir: Path) -> tuple[str, ...]:
        """Return the command of the first node, which starts the ranks of all."""
        hosts = "${HOSTS}" if case.layout.nodes > 1 else f"localhost:{case.world_size}"
        return (
            program_beside(target, "horovodrun"),
            # Named, since it takes MPI by itself where it was built with it.
            "--gloo",
            # Its cache is a folder in the user's home.
            "--disable-cache",
            f"--num-proc={case.world_size}",
            f"--hosts={hosts}",
            *rank_command(case, target, workdir, self.place_variables),
        )

    def env(self, case: Case, target: Target, workdir: Path) -> dict[str, str]:
        """Return what undoes a leftover of some outer cluster: ranks join each other by it."""
        return {"TF_CONFIG": ""}
