"""A user's program as the command of a rank, or as a program that starts its ranks itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.wire import MARK_VARIABLE, MarkSettings

if TYPE_CHECKING:
    from pytest_dlperf.launch.base import Target

_PYTHON: Final = frozenset({"python", "python3"})


def program_command(case: Case, target: Target) -> tuple[str, ...]:
    """Return the command of ``case``; a bare ``python`` is the target's interpreter."""
    first, *rest = case.command_line
    return (target.python if first in _PYTHON else first, *rest)


def brings_own_interpreter(case: Case) -> bool:
    """Return whether ``case`` starts without a framework of this environment."""
    return (
        bool(case.command)
        and case.command[0] not in _PYTHON
        and (case.launcher == "none" or case.world_size == 1)
    )


def program_env(
    case: Case, target: Target, workdir: Path, place_variables: tuple[str, str, str]
) -> dict[str, str]:
    """Return the variables for marks in the program, and those of the devices it may use."""
    if not case.command:
        return {}
    mark = MarkSettings(
        records=str(target.records(workdir)),
        iterations=case.protocol.iterations,
        warmup=case.protocol.warmup,
        work=case.rank_work,
        world_size=case.world_size,
        place=place_variables,
        framework=case.framework,
        unit=case.unit,
        is_work_declared=case.work is not None,
    )
    found = {MARK_VARIABLE: mark.to_json()}
    if case.layout.device == "gpu":
        # A program that takes every GPU it sees must see those of its layout only.
        outer = os.environ.get("CUDA_VISIBLE_DEVICES")
        visible = outer.split(",") if outer else [str(i) for i in range(1024)]
        found["CUDA_VISIBLE_DEVICES"] = ",".join(visible[: case.layout.devices_per_node])
    return found


class NoLauncher:
    """Starts the program alone: it starts its ranks itself (accelerate, deepspeed, spawn)."""

    starts_all_nodes: ClassVar = True
    private_logs: ClassVar = ""
    rank_logs: ClassVar = ""
    place_variables: ClassVar = ("RANK", "LOCAL_RANK", "WORLD_SIZE")

    def argv(self, case: Case, target: Target, workdir: Path) -> tuple[str, ...]:
        """Return the program's command."""
        return program_command(case, target)

    def env(self, case: Case, target: Target, workdir: Path) -> dict[str, str]:
        """Return nothing: the program itself tells its ranks their places."""
        return {}
