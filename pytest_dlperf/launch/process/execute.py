"""Execute a launch plan under a supervisor. All ranks that pytest starts are started here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.core.run import NODES, LaunchPlan, Run
from pytest_dlperf.launch.process import supervisor as supervisor_program
from pytest_dlperf.launch.process.orphans import RUN_VARIABLE, end_left_over
from pytest_dlperf.launch.process.run_logs import absorb_logs
from pytest_dlperf.launch.process.supervisor import GRACE_S, UNKILLABLE_S
from pytest_dlperf.launch.remote.over_hosts import (
    LONGER_S,
    command_over_hosts,
    how_nodes_ended,
    remove_settings,
)

_POLL_S: Final = 0.25


def execute(
    plan: LaunchPlan,
    *,
    lease: int | None = None,
    on_tick: Callable[[Path], None] | None = None,
) -> Run:
    """Run ``plan`` to its end and return what happened.

    ``on_tick`` is called four times a second with the folder of the records. An exception, such
    as Ctrl-C, ends the launch before it propagates. The launch's temporary files are removed.
    """
    # Not in the run's folder: the path of a socket has 108 bytes at most.
    with tempfile.TemporaryDirectory(prefix="dlperf-", ignore_cleanup_errors=True) as temporary:
        return _execute(plan, lease, on_tick, temporary)


def _execute(
    plan: LaunchPlan, lease: int | None, on_tick: Callable[[Path], None] | None, temporary: str
) -> Run:
    workdir = Path(plan.workdir)
    workdir.mkdir(mode=0o700, parents=True, exist_ok=True)
    started_at_s, begin_s = time.time(), time.monotonic()
    supervisor = _start(plan, workdir, lease, temporary)
    try:
        while True:
            try:
                supervisor.wait(timeout=_POLL_S)
                break
            except subprocess.TimeoutExpired:
                if on_tick is not None:
                    on_tick(Path(plan.records))
    finally:
        _end(supervisor, workdir)
        if plan.nodes:
            remove_settings(workdir)
        if plan.private_logs:
            # Already done, unless the supervisor was killed.
            absorb_logs(Path(plan.private_logs), workdir / "output.log")
    report = _report(supervisor, workdir)
    nodes = how_nodes_ended(workdir)
    end = report["end"] + (f": {report['message']}" if "message" in report else "")
    return Run(
        plan=plan,
        exit_code=report.get("exit_code"),
        elapsed_s=time.monotonic() - begin_s,
        started_at_s=started_at_s,
        timed_out=nodes.timed_out or report["end"] == "timeout",
        end=f"{NODES}{nodes.problem}" if nodes.problem else end,
        log=str(workdir / "output.log"),
        alive=frozenset(report["alive"]) if "alive" in report and not plan.nodes else None,
        alive_on=nodes.alive,
        oom_kills=report.get("oom_kills", 0),
        log_error=report.get("log_error", ""),
    )


def _start(
    plan: LaunchPlan, workdir: Path, lease: int | None, temporary: str
) -> subprocess.Popen[bytes]:
    argv, env, timeout_s = plan.argv, dict(plan.env), plan.timeout_s
    if plan.nodes:
        # The ranks' environment goes to them over the channels.
        argv, env = command_over_hosts(plan), {RUN_VARIABLE: plan.env[RUN_VARIABLE]}
        timeout_s += LONGER_S
    with (workdir / "supervisor.log").open("wb") as log:
        return subprocess.Popen(
            [
                sys.executable,
                # Isolated: a file of the test's folder must not hide a module of the
                # standard library.
                "-I",
                supervisor_program.__file__,
                f"--timeout-s={timeout_s:g}",
                f"--workdir={workdir}",
                f"--rank-logs={plan.rank_logs}",
                f"--temporary={temporary}",
                *([f"--private-logs={plan.private_logs}"] if plan.private_logs else []),
                "--",
                *argv,
            ],
            cwd=workdir if plan.nodes else plan.cwd or workdir,
            env={**os.environ, "TMPDIR": temporary, **env},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=() if lease is None else (lease,),
            # Out of the terminal's process group: pytest alone handles Ctrl-C.
            start_new_session=True,
        )


def _end(supervisor: subprocess.Popen[bytes], workdir: Path) -> None:
    """Close the pipe, which ends the launch, and wait until the supervisor has exited."""
    assert supervisor.stdin is not None
    supervisor.stdin.close()
    deadline_s = time.monotonic() + GRACE_S + UNKILLABLE_S + 5
    while supervisor.poll() is None and time.monotonic() < deadline_s:
        try:
            supervisor.wait(timeout=_POLL_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            continue  # a second Ctrl-C must not leave ranks behind
    if supervisor.poll() != 0:
        # It was killed, or is stuck: find the processes of the launch by their environment.
        supervisor.kill()
        supervisor.wait()
        end_left_over([str(workdir)])


def _report(supervisor: subprocess.Popen[bytes], workdir: Path) -> dict[str, Any]:
    path = workdir / "supervisor.json"
    if not path.exists() and supervisor.returncode > 1:
        why = os.strerror(supervisor.returncode)
        return {"end": "report-not-written", "message": f"{path}: {why}"}
    if not path.exists():
        return {
            "end": "supervisor-died",
            "message": f"exit status {supervisor.returncode}; see {workdir / 'supervisor.log'}",
        }
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if report.get("unkilled"):
        pids = ", ".join(map(str, report["unkilled"]))
        report["message"] = f"SIGKILL did not end pid {pids}"
    return report
