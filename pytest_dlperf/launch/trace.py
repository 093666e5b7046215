"""Makes the plan of a trace: one process that counts what a step of a case asks for."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.run import LaunchPlan
from pytest_dlperf.launch.base import Target, behind, rank_arguments
from pytest_dlperf.launch.plan import arm_env, inherited_path
from pytest_dlperf.launch.process.left_over import RUN_VARIABLE

#: Module of the worker that traces.
MODULE = "pytest_dlperf.worker.cost"
_PLACE = ("RANK", "LOCAL_RANK", "WORLD_SIZE")


def make_trace_plan(case: Case, target: Target, workdir: Path) -> LaunchPlan:
    """Return the plan of a trace of ``case`` in ``workdir``; no device is visible to it."""
    arguments = rank_arguments(case, target, workdir, _PLACE)
    argv = (target.python, "-m", MODULE, *arguments.flags())
    env = {
        "OMP_NUM_THREADS": str(target.threads_per_rank),
        "PYTHONPATH": os.pathsep.join((*target.python_path, *inherited_path(target))),
        "PYTHONUNBUFFERED": "1",
        # A program that goes through a set of names makes its tensors in one order
        "PYTHONHASHSEED": "0",
        # As a rank has them of its launcher: meshes of several nodes need those of one
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_WORLD_SIZE": str(case.ranks_per_node),
        "CUDA_VISIBLE_DEVICES": "",
        RUN_VARIABLE: str(workdir),
        **arm_env(target),
    }
    argv, env = behind(target.prefix, argv, env, keep=RUN_VARIABLE)
    return LaunchPlan(
        case_id=case.id,
        argv=argv,
        env=env,
        workdir=str(workdir),
        timeout_s=case.protocol.timeout_s,
    )
