"""Make the launch plan of a case: the launcher's command, the ranks' environment, arm, and node.

With ``--dlperf-node-rank`` each node is started by hand. The nodes write into a shared folder that
they run, and why they stopped; without such a folder only the launcher's timeouts show it.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pytest_dlperf.core.arm import ReadyArm, Reported
from pytest_dlperf.core.case import NO_FRAMEWORK, Case
from pytest_dlperf.core.errors import CaseError, UsageError
from pytest_dlperf.core.metrics import measures_compiling
from pytest_dlperf.core.place import NodePart
from pytest_dlperf.core.run import LaunchPlan
from pytest_dlperf.core.wire import (
    MARK_VARIABLE,
    MODULES_VARIABLE,
    PADDING_VARIABLE,
    TREES_VARIABLE,
    MarkSettings,
)
from pytest_dlperf.core.writable import message_of
from pytest_dlperf.launch.base import Target, behind, join_timeout_s
from pytest_dlperf.launch.launcher_in_command import check_launcher_in_command
from pytest_dlperf.launch.launchers import launcher_name, launcher_of
from pytest_dlperf.launch.process.left_over import RUN_VARIABLE
from pytest_dlperf.launch.remote.over_hosts import RemoteHosts, over_hosts
from pytest_dlperf.launch.remote.sent_to_hosts import environment_files, tuning


def asked_threads(variables: Mapping[str, str]) -> int:
    """Return how many threads a rank gets by ``OMP_NUM_THREADS``; 0 where it names no number.

    Of a list, which has one number for each nested level, the first.
    """
    threads = variables.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(threads) if threads.isdecimal() else 0


def apply_arm(target: Target, arm: ReadyArm, *, reported: Reported) -> Target:
    """Return ``target`` changed by ``arm``; ``reported`` says which imports its ranks report.

    The first folder of the path is the worker's, which stays: the same worker runs both arms.
    """
    worker, *path = target.python_path
    if arm.tree is not None:
        path = [arm.tree.moved(os.path.realpath(folder)) for folder in path]
    overlay = [arm.overlay] if arm.overlay else []
    return replace(
        target,
        python_path=tuple(dict.fromkeys([worker, *overlay, *path])),
        folder=arm.tree.moved(os.path.realpath(target.folder))
        if arm.tree is not None
        else target.folder,
        # The worker sets the threads itself, whatever the variable says.
        threads_per_rank=asked_threads(arm.variables) or target.threads_per_rank,
        tree=arm.tree,
        overlay=arm.overlay,
        variables=arm.variables,
        padded=True,
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


#: Bytes of a page of memory. Within one, the length of the environment moves a program's stack.
_PAGE_BYTES: Final = 4096


def padding(target: Target, workdir: Path) -> dict[str, str]:
    """Return a variable whose length is drawn for this launch of an arm; nothing without arms.

    What the names of two folders add is lost in it (Mytkowicz et al., ASPLOS 2009). Drawn by the
    folder of the run, which is one of this session, this arm and this launch.
    """
    if not target.padded:
        return {}
    return {PADDING_VARIABLE: "x" * random.Random(str(workdir)).randrange(_PAGE_BYTES)}


_NODE_RANK: Final = "${NODE_RANK}"


def fill_in(argv: tuple[str, ...], part: NodePart, *, what: str) -> tuple[str, ...]:
    """Return ``argv`` with this node's number and the master's address filled in.

    Raises ``UsageError`` about ``what`` if the launcher has no placeholder for a node's number.
    """
    if not any(_NODE_RANK in word for word in argv):
        raise UsageError(
            f"{what} starts all nodes from the first one, never one node alone; leave "
            "--dlperf-node-rank out"
        )
    values = {
        _NODE_RANK: str(part.node_rank),
        "${MASTER_ADDR}": part.master_addr,
        "${MASTER_PORT}": str(part.master_port),
    }
    for name, value in values.items():
        argv = tuple(word.replace(name, value) for word in argv)
    return argv


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedFolder:
    """The folder that the nodes of one case share: records, and why a node stopped."""

    folder: Path
    node_rank: int

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Tell the other nodes that this one runs and, if it stops, why."""
        self._begin()
        try:
            yield
        except BaseException as error:
            self._stop(message_of(error) or type(error).__name__)
            raise

    def _begin(self) -> None:
        # Its own files may be left from another session.
        try:
            self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
            self._stopped(self.node_rank).unlink(missing_ok=True)
            self._here.touch()
        except OSError as error:
            raise CaseError(f"cannot write to {self.folder}: {error.strerror}") from error

    def records(self, number: int) -> Path:
        """Return the folder of all ranks' records in run ``number``."""
        return self.folder / f"run{number}"

    def clear(self, number: int) -> None:
        """Remove an earlier session's records, on node 0: no rank starts without it."""
        if self.node_rank == 0:
            for path in self.records(number).glob("rank*"):
                path.unlink(missing_ok=True)

    def _stop(self, reason: str) -> None:
        try:
            self._stopped(self.node_rank).write_text(reason, encoding="utf-8")
        except OSError:
            return  # then the others notice by the launcher's timeout

    def check_others(self) -> None:
        """Raise ``CaseError`` if another node has stopped since this one began."""
        for path in sorted(self.folder.glob("stopped.node*")):
            node = path.name.removeprefix("stopped.node")
            if node == str(self.node_rank):
                continue
            if path.stat().st_mtime >= self._here.stat().st_mtime:
                reason = path.read_text(encoding="utf-8", errors="replace").partition("\n")[0]
                raise CaseError(f"node {node} stopped: {reason}")

    @property
    def _here(self) -> Path:
        return self.folder / f"here.node{self.node_rank}"

    def _stopped(self, node_rank: int) -> Path:
        return self.folder / f"stopped.node{node_rank}"


def _compile_caches(case: Case, workdir: Path) -> dict[str, str]:
    """Return cache folders of torch.compile that only the runs of this case and session share.

    Code compiled by another version, another arm or on another day must not be found there. Where
    the case is gated on the time of compiling, each run has its own: else the first compiles and
    the others load. A variable that the user has set is not changed.
    """
    gates_compiling = measures_compiling(case.metrics)
    # A program that names no framework may compile all the same
    if case.framework != "torch" and not (case.framework == NO_FRAMEWORK and gates_compiling):
        return {}
    caches = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
    shared_by = workdir if gates_compiling else workdir.parent
    folder = shared_by / "compile-caches"
    return {n: str(folder / sub) for n, sub in caches.items() if n not in os.environ}


def _loopback(case: Case) -> dict[str, str]:
    """Return what keeps gloo, which authenticates nobody, off the network on a single node."""
    if case.layout.nodes > 1 or case.ranks == 1 or "GLOO_SOCKET_IFNAME" in os.environ:
        return {}
    return {"GLOO_SOCKET_IFNAME": "lo"}


def _patience(case: Case, target: Target) -> dict[str, str]:
    """Return what keeps Horovod from taking a peer for lost that is frozen between its turns.

    Its ranks never cease to talk, over gloo, which waits 30 s for an answer. All launches of arms
    have it, in whatever order they are.
    """
    name = "HOROVOD_GLOO_TIMEOUT_SECONDS"
    if not target.padded or name in os.environ:
        return {}
    return {name: f"{max(30.0, case.protocol.timeout_s):.0f}"}


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
        work=case.replica_work,
        world_size=case.world_size,
        place=place_variables,
        framework=case.framework,
        unit=case.unit,
        is_work_declared=case.work is not None,
        split=case.parallelism.split,
        devices_per_process=case.devices_of_process,
        precision=case.precision,
        on_gpu=case.layout.device == "gpu",
        batch_size_per_device=case.batch_size_per_device,
        turns=target.turns,
        profiled_steps=target.profile.profiled if target.profile else 0,
        sampled_steps=target.profile.sampled if target.profile else 0,
    )
    env = {MARK_VARIABLE: mark.to_json()}
    if case.framework == "jax" and case.layout.device == "cpu":
        env["JAX_NUM_CPU_DEVICES"] = str(case.devices_of_process)
    if case.layout.device == "gpu":
        # A program that takes every GPU it sees must see those of its layout only.
        outer = os.environ.get("CUDA_VISIBLE_DEVICES")
        visible = outer.split(",") if outer else [str(i) for i in range(1024)]
        env["CUDA_VISIBLE_DEVICES"] = ",".join(visible[: case.layout.devices_per_node])
    return env


def make_plan(case: Case, target: Target, workdir: Path) -> LaunchPlan:
    """Return the plan of one run of ``case`` in ``workdir``.

    Raises ``UsageError`` or ``CaseError`` for what the launcher cannot start.
    """
    launcher = launcher_of(case)
    check_launcher_in_command(case)
    argv = launcher.argv(case, target, workdir)
    env = {
        "OMP_NUM_THREADS": str(target.threads_per_rank),
        "PYTHONPATH": os.pathsep.join((*target.python_path, *inherited_path(target))),
        "PYTHONUNBUFFERED": "1",
        RUN_VARIABLE: str(workdir),
        **_loopback(case),
        **_patience(case, target),
        **_compile_caches(case, workdir),
        **launcher.env(case, target, workdir),
        **_program_env(case, target, workdir, launcher.place_variables),
        **arm_env(target),
        **padding(target, workdir),
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
