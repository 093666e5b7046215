"""Launcher ``local``: one rank as a plain Python process."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.launch.base import Target, rank_command


class LocalLauncher:
    """Starts the worker itself."""

    starts_all_nodes: ClassVar = False
    private_logs: ClassVar = ""
    rank_logs: ClassVar = ""
    place_variables: ClassVar = ("RANK", "LOCAL_RANK", "WORLD_SIZE")

    def argv(self, case: Case, target: Target, workdir: Path) -> tuple[str, ...]:
        """Return the worker's command."""
        if case.world_size != 1:
            raise UsageError(
                f"{case.id}: launcher 'local' starts one rank, the layout {case.layout} has "
                f"{case.world_size}; use launcher='torchrun', or leave it out"
            )
        return rank_command(case, target, workdir, self.place_variables)

    def env(self, case: Case, target: Target, workdir: Path) -> dict[str, str]:
        """Return the place of the only rank, in place of variables left from an outer launcher.

        A user's program gets none: many take these variables as a sign of a launcher, and wait
        for other ranks.
        """
        return {} if case.command else {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
