"""Make the launch plan of a case: the launcher's command and the environment of the ranks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pytest_dlperf.core.case import NO_FRAMEWORK, Case
from pytest_dlperf.core.errors import UsageError, lookup
from pytest_dlperf.core.run import LaunchPlan
from pytest_dlperf.launch.arms.apply import arm_env, inherited_path
from pytest_dlperf.launch.base import Launcher, Target, behind, join_timeout_s
from pytest_dlperf.launch.launchers.horovodrun import HorovodrunLauncher
from pytest_dlperf.launch.launchers.local import LocalLauncher
from pytest_dlperf.launch.launchers.mpirun import MpirunLauncher
from pytest_dlperf.launch.launchers.paddle_launch import PaddleLauncher
from pytest_dlperf.launch.launchers.tf_multiworker import TfMultiworkerLauncher
from pytest_dlperf.launch.launchers.torchrun import TorchrunLauncher
from pytest_dlperf.launch.node_part import fill_in
from pytest_dlperf.launch.process.orphans import RUN_VARIABLE
from pytest_dlperf.launch.program import NoLauncher, program_env
from pytest_dlperf.launch.remote.over_hosts import RemoteHosts, over_hosts
from pytest_dlperf.launch.remote.travelling import environment_files, tuning

#: Every built-in launcher, by the name in ``Case.launcher``.
LAUNCHERS: Final[Mapping[str, type[Launcher]]] = {
    "horovodrun": HorovodrunLauncher,
    "local": LocalLauncher,
    "mpirun": MpirunLauncher,
    "none": NoLauncher,
    "tf-multiworker": TfMultiworkerLauncher,
    "torchrun": TorchrunLauncher,
    "paddle.distributed.launch": PaddleLauncher,
}
#: Default launcher of each framework, for cases with the launcher ``auto``.
DEFAULT_LAUNCHERS: Final = {
    "torch": "torchrun",
    "paddle": "paddle.distributed.launch",
    "tensorflow": "horovodrun",
    NO_FRAMEWORK: "none",
}


def launcher_name(case: Case) -> str:
    """Return the launcher of ``case``: its own, or the framework's; ``local`` for one rank."""
    if case.launcher != "auto":
        return case.launcher
    if case.world_size == 1:
        return "local"
    return lookup("framework with a launcher", case.framework, DEFAULT_LAUNCHERS)


def _compile_caches(case: Case, workdir: Path) -> dict[str, str]:
    """Return cache folders of torch.compile that only the runs of this case and session share.

    Code compiled by another version, another arm or on another day must not be found there. A
    variable that the user has set is not changed.
    """
    if case.framework != "torch":
        return {}
    caches = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
    folder = workdir.parent / "compile-caches"
    return {n: str(folder / sub) for n, sub in caches.items() if n not in os.environ}


def make_plan(case: Case, target: Target, workdir: Path) -> LaunchPlan:
    """Return the plan of one run of ``case`` in ``workdir``; raises ``UsageError``."""
    launcher = lookup("launcher", launcher_name(case), LAUNCHERS)()
    if launcher_name(case) == "none" and not case.command:
        raise UsageError(
            f"{case.id}: launcher None is for a command that starts its ranks itself; a workload "
            "needs a launcher"
        )
    argv = launcher.argv(case, target, workdir)
    env = {
        "OMP_NUM_THREADS": str(target.threads_per_rank),
        "PYTHONPATH": os.pathsep.join((*target.python_path, *inherited_path(target))),
        "PYTHONUNBUFFERED": "1",
        RUN_VARIABLE: str(workdir),
        **_compile_caches(case, workdir),
        **launcher.env(case, target, workdir),
        **program_env(case, target, workdir, launcher.place_variables),
        **arm_env(target),
    }
    if target.hosts:
        env = {**tuning(), **env}
    timeout_s = case.protocol.timeout_s
    if target.node_part is not None:
        argv = fill_in(argv, target.node_part, what=f"{case.id}: launcher {launcher_name(case)!r}")
        timeout_s += join_timeout_s(case, target.node_part)
    argv, env = behind(target.prefix, argv, env, keep=RUN_VARIABLE)
    plan = LaunchPlan(
        case_id=case.id,
        argv=argv,
        env=env,
        workdir=str(workdir),
        timeout_s=timeout_s,
        cwd=target.folder if case.command else "",
        private_logs=str(workdir / launcher.private_logs) if launcher.private_logs else "",
        rank_logs=launcher.rank_logs,
        starts_all_nodes=launcher.starts_all_nodes,
        shared_records=str(target.records(workdir)) if target.node_part else "",
    )
    if not target.hosts or target.transport is None:
        return plan
    return over_hosts(
        plan,
        RemoteHosts(
            hosts=target.hosts,
            transport=target.transport,
            prefix=target.prefix,
            package_folder=target.package_folder,
            files=environment_files(target),
        ),
    )
