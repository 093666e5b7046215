"""Launcher ``tf-multiworker``: this package's own, since TensorFlow has none for that strategy."""

from __future__ import annotations

from pathlib import Path

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.launch.base import Launcher, Target, rank_command


class TfMultiworkerLauncher(Launcher):
    """Starts one process a rank with TF_CONFIG, on one node."""

    def argv(self, case: Case, target: Target, workdir: Path) -> tuple[str, ...]:
        """Return the command of ``pytest_dlperf.worker.tf_multiworker``."""
        if case.layout.nodes > 1:
            raise UsageError(
                f"{case.id}: launcher 'tf-multiworker' starts one node, the layout {case.layout} "
                f"has {case.layout.nodes}; use launcher='horovodrun'"
            )
        return (
            target.python,
            "-m",
            "pytest_dlperf.worker.tf_multiworker",
            f"--processes={case.world_size}",
            "--",
            *rank_command(case, target, workdir, self.place_variables),
        )
