"""Apply an arm of an A/B to the target of its ranks: path, overlay, variables, threads."""

from __future__ import annotations

import os
from dataclasses import replace

from pytest_dlperf.core.arm import ReadyArm, Reported
from pytest_dlperf.core.wire import MODULES_VARIABLE, TREES_VARIABLE
from pytest_dlperf.launch.base import Target


def apply_arm(target: Target, arm: ReadyArm, *, reported: Reported) -> Target:
    """Return ``target`` changed by ``arm``; ``reported`` says which imports its ranks report.

    The first folder of the path is the worker's, which stays: the same worker runs both arms.
    """
    worker, *path = target.python_path
    if arm.tree is not None:
        path = [arm.tree.moved(os.path.realpath(folder)) for folder in path]
    overlay = [arm.overlay] if arm.overlay else []
    threads = arm.variables.get("OMP_NUM_THREADS", "")
    return replace(
        target,
        python_path=tuple(dict.fromkeys([worker, *overlay, *path])),
        folder=arm.tree.moved(os.path.realpath(target.folder))
        if arm.tree is not None
        else target.folder,
        # The worker sets the threads itself, whatever the variable says.
        threads_per_rank=int(threads) if threads.isdecimal() else target.threads_per_rank,
        tree=arm.tree,
        overlay=arm.overlay,
        variables=arm.variables,
        reported=reported,
    )


def inherited_path(target: Target) -> tuple[str, ...]:
    """Return the entries of the session's own PYTHONPATH, as the ranks of ``target`` get them.

    All are absolute: a relative entry counts from where the session started, but ranks start in
    the folder of their run. An empty entry is left out: it means a folder that ``target`` has.
    """
    entries = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    if target.tree is None:
        return tuple(os.path.abspath(entry) for entry in entries)
    return tuple(target.tree.moved(os.path.realpath(entry)) for entry in entries)


def arm_env(target: Target) -> dict[str, str]:
    """Return the variables of the arm, and those that say which imports its ranks report."""
    reported = target.reported
    asked = {
        TREES_VARIABLE: os.pathsep.join(reported.trees),
        MODULES_VARIABLE: reported.modules_file,
    }
    return {**target.variables, **{name: text for name, text in asked.items() if text}}
