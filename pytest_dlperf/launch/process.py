"""Execute a plan under a supervisor; the only module of the pytest side that starts ranks."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_dlperf.core.run import Run
from pytest_dlperf.launch import supervisor as supervisor_program
from pytest_dlperf.launch.plan import RUN_VARIABLE
from pytest_dlperf.launch.supervisor import GRACE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_dlperf.core.run import LaunchPlan

_POLL_S: Final = 0.25


def execute(
    plan: LaunchPlan,
    *,
    lease: int | None = None,
    on_tick: Callable[[Path], None] | None = None,
) -> Run:
    """Run ``plan`` to its end and return what happened; ``on_tick`` is called now and then.

    An exception here, Ctrl-C among them, ends the launch before it goes on.
    """
    workdir = Path(plan.workdir)
    workdir.mkdir(mode=0o700, parents=True, exist_ok=True)
    started_at_s, begin_s = time.time(), time.monotonic()
    supervisor = _start(plan, workdir, lease)
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
        if plan.private_logs:
            # Already done, unless the supervisor was killed.
            supervisor_program.absorb_logs(Path(plan.private_logs), workdir / "output.log")
    report = _report(supervisor, workdir)
    return Run(
        plan=plan,
        exit_code=report.get("exit_code"),
        elapsed_s=time.monotonic() - begin_s,
        started_at_s=started_at_s,
        timed_out=report["end"] == "timeout",
        end=report["end"] + (f": {report['message']}" if "message" in report else ""),
        log=str(workdir / "output.log"),
    )


def _start(plan: LaunchPlan, workdir: Path, lease: int | None) -> subprocess.Popen[bytes]:
    with (workdir / "supervisor.log").open("wb") as log:
        return subprocess.Popen(
            [
                sys.executable,
                # Isolated: a file of the test's folder named like one of the standard
                # library is the ranks' affair.
                "-I",
                supervisor_program.__file__,
                f"--timeout-s={plan.timeout_s:g}",
                f"--workdir={workdir}",
                *([f"--private-logs={plan.private_logs}"] if plan.private_logs else []),
                "--",
                *plan.argv,
            ],
            cwd=plan.cwd or workdir,
            env={**os.environ, **plan.env},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=() if lease is None else (lease,),
            # Out of the terminal's process group: Ctrl-C is pytest's to handle.
            start_new_session=True,
        )


def _end(supervisor: subprocess.Popen[bytes], workdir: Path) -> None:
    """Close the pipe, which ends the launch, and wait until it is gone."""
    assert supervisor.stdin is not None
    supervisor.stdin.close()
    deadline_s = time.monotonic() + GRACE_S + 10
    while supervisor.poll() is None and time.monotonic() < deadline_s:
        try:
            supervisor.wait(timeout=_POLL_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            continue  # a second Ctrl-C must not leave ranks behind
    if supervisor.poll() != 0:
        # It was killed, or is stuck: what it would have ended is found by its environment.
        supervisor.kill()
        supervisor.wait()
        kill_run(workdir)


def kill_run(workdir: Path) -> list[int]:
    """Kill every process whose environment names the run, until none is left; return pids."""
    killed: set[int] = set()
    while living := _processes_of(workdir):
        for pid in living:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= set(living)
        time.sleep(_POLL_S / 10)
    return sorted(killed)


def _processes_of(workdir: Path) -> list[int]:
    wanted = f"{RUN_VARIABLE}={workdir}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue  # it ended, or is somebody else's
    return found


def _report(supervisor: subprocess.Popen[bytes], workdir: Path) -> dict[str, Any]:
    path = workdir / "supervisor.json"
    if not path.exists():
        return {
            "end": "supervisor-died",
            "message": f"exit status {supervisor.returncode}; see {workdir / 'supervisor.log'}",
        }
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return report
