"""Make the launch plan of a case: the launcher's command and the environment of the ranks."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.run import LaunchPlan
from pytest_dlperf.core.wire import MARK_VARIABLE, MarkSettings
from pytest_dlperf.launch.arms.apply import arm_env, inherited_path
from pytest_dlperf.launch.base import Target, behind, join_timeout_s
from pytest_dlperf.launch.launchers import launcher_name, launcher_of
from pytest_dlperf.launch.node_part import fill_in
from pytest_dlperf.launch.process.orphans import RUN_VARIABLE
from pytest_dlperf.launch.remote.over_hosts import RemoteHosts, over_hosts
from pytest_dlperf.launch.remote.travelling import environment_files, tuning


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


def _program_env(
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


def make_plan(case: Case, target: Target, workdir: Path) -> LaunchPlan:
    """Return the plan of one run of ``case`` in ``workdir``; raise ``UsageError``."""
    launcher = launcher_of(case)
    argv = launcher.argv(case, target, workdir)
    env = {
        "OMP_NUM_THREADS": str(target.threads_per_rank),
        "PYTHONPATH": os.pathsep.join((*target.python_path, *inherited_path(target))),
        "PYTHONUNBUFFERED": "1",
        RUN_VARIABLE: str(workdir),
        **_compile_caches(case, workdir),
        **launcher.env(case, target, workdir),
        **_program_env(case, target, workdir, launcher.place_variables),
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
