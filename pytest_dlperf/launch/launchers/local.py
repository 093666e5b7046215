"""Launchers without a program: one rank, a user's command, and one process a rank."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.launch.base import Launcher, Target, program_command, rank_command


class LocalLauncher(Launcher):
    """``local``: starts the one rank itself."""

    def argv(self, case: Case, target: Target, workdir: Path) -> tuple[str, ...]:
        """Return the worker's command."""
        if case.ranks != 1:
            raise UsageError(
                f"launcher 'local' starts one rank, the layout {case.layout} has "
                f"{case.ranks}; use launcher='torchrun', or leave it out",
                subject=case.id,
            )
        return rank_command(case, target, workdir, self.place_variables)

    def env(self, case: Case, target: Target, workdir: Path) -> dict[str, str]:
        """Return the place of the only rank, in place of variables left from an outer launcher.

        A user's program gets none: many take these variables as a sign of a launcher, and wait
        for other ranks.
        """
        return {} if case.command else {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}


class NoLauncher(Launcher):
    """``none``: starts a program that starts its ranks itself (accelerate, deepspeed, spawn)."""

    starts_all_nodes: ClassVar = True

    def argv(self, case: Case, target: Target, workdir: Path) -> tuple[str, ...]:
        """Return the program's command; raise ``UsageError`` for a workload, which has none."""
        if not case.command:
            raise UsageError(
                "launcher None is for a command that starts its ranks itself; a "
                "workload needs a launcher",
                subject=case.id,
            )
        return program_command(case, target)


class TfMultiworkerLauncher(Launcher):
    """Starts one process a rank with TF_CONFIG, on one node."""

    def argv(self, case: Case, target: Target, workdir: Path) -> tuple[str, ...]:
        """Return the command of ``pytest_dlperf.worker.tf_multiworker``."""
        if case.layout.nodes > 1:
            raise UsageError(
                f"launcher 'tf-multiworker' starts one node, the layout {case.layout} "
                f"has {case.layout.nodes}; use launcher='horovodrun'",
                subject=case.id,
            )
        return (
            target.python,
            "-m",
            "pytest_dlperf.worker.tf_multiworker",
            f"--processes={case.ranks}",
            "--",
            *rank_command(case, target, workdir, self.place_variables),
        )


class JaxProcessesLauncher(Launcher):
    """Starts the processes of a JAX training, which meet at the first node."""

    def argv(self, case: Case, target: Target, workdir: Path) -> tuple[str, ...]:
        """Return the command of one node: ``pytest_dlperf.worker.jax_processes``."""
        nodes: tuple[str, ...] = ()
        if case.layout.nodes > 1:
            nodes = (
                f"--nodes={case.layout.nodes}",
                "--node-rank=${NODE_RANK}",
                "--coordinator=${MASTER_ADDR}:${MASTER_PORT}",
            )
        return (
            target.python,
            "-m",
            "pytest_dlperf.worker.jax_processes",
            f"--processes={case.ranks_per_node}",
            *([f"--devices={case.devices_of_process}"] if case.devices_of_process > 1 else []),
            *nodes,
            "--",
            *rank_command(case, target, workdir, self.place_variables),
        )
