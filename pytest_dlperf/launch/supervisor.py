"""The program that every launch is a child of: starts one launch, and leaves nothing of it.

Standard library only, and nothing of this package: it is run by its path. It is a child
subreaper, so that every process of the launch stays its descendant whatever session it makes or
parent it loses; it holds the lease's descriptor, which its launch does not inherit; its standard
input is a pipe from pytest, whose end of file means that pytest is gone, however it died. At the
end of the launcher, at the timeout, at a signal or at end of file it terminates, then kills and
reaps every descendant, writes why to ``supervisor.json``, and only then exits, which frees the
lease.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

_PR_SET_CHILD_SUBREAPER: Final = 36  # prctl(2), Linux 3.4
_POLL_S: Final = 0.05
#: From SIGTERM to SIGKILL. A CI system's cancel leaves about 10 s in all.
GRACE_S: Final = 4.0


def main(argv: list[str] | None = None) -> int:
    """Run the command after ``--`` to its end; return 0 if it could be supervised at all."""
    parser = argparse.ArgumentParser(prog="supervisor.py")
    parser.add_argument("--timeout-s", type=float, required=True)
    parser.add_argument("--workdir", type=Path, required=True)
    parser.add_argument("--private-logs", type=Path)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args(argv)
    command = arguments.command[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    asked_to_end: list[int] = []
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda received, _frame: asked_to_end.append(received))
    report: dict[str, Any] = {"exit_code": None, "end": "exited"}
    with (arguments.workdir / "output.log").open("ab") as log:
        try:
            launcher = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            report |= {"end": "not-started", "message": f"{command[0]}: {error.strerror}"}
        else:
            report |= _supervise(launcher, arguments.timeout_s, asked_to_end)
    if arguments.private_logs is not None:
        absorb_logs(arguments.private_logs, arguments.workdir / "output.log")
    partial = arguments.workdir / "supervisor.json.partial"
    partial.write_text(json.dumps(report), encoding="utf-8")
    partial.replace(arguments.workdir / "supervisor.json")
    return 0


def _supervise(
    launcher: subprocess.Popen[bytes], timeout_s: float, asked_to_end: list[int]
) -> dict[str, Any]:
    end = _wait_for_end(launcher, time.monotonic() + timeout_s, asked_to_end)
    exit_code = launcher.returncode
    killed = end_descendants(gently=end != "exited")
    if exit_code is None:
        exit_code = launcher.poll()
    return {"exit_code": exit_code, "end": end, "killed": killed}


def _wait_for_end(
    launcher: subprocess.Popen[bytes], deadline_s: float, asked_to_end: list[int]
) -> str:
    pytest_pipe = sys.stdin.fileno()
    while True:
        if launcher.poll() is not None:
            return "exited"
        if asked_to_end:
            return "asked-to-end"
        if time.monotonic() > deadline_s:
            return "timeout"
        readable, _, _ = select.select([pytest_pipe], [], [], _POLL_S)
        if readable and not os.read(pytest_pipe, 1):
            return "pytest-gone"


def end_descendants(*, gently: bool) -> int:
    """Terminate, then kill and reap every descendant; return how many had to be killed.

    Repeats until none is left: a process may make another while it is being killed.
    """
    if gently:
        _signal_all(signal.SIGTERM)
        deadline_s = time.monotonic() + GRACE_S
        while descendants(os.getpid()) and time.monotonic() < deadline_s:
            _reap()
            time.sleep(_POLL_S)
    killed: set[int] = set()
    while True:
        _reap()
        living = descendants(os.getpid())
        if not living:
            return len(killed)
        killed |= set(living)
        _signal_all(signal.SIGKILL)
        time.sleep(_POLL_S / 5)


def _signal_all(number: int) -> None:
    for pid in descendants(os.getpid()):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue  # it ended by itself


def _reap() -> None:
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


def absorb_logs(folder: Path, log: Path) -> None:
    """Append every ``workerlog.*`` of ``folder`` to ``log``, and move it there; remove the folder.

    For launchers whose log folder holds the whole environment, passwords and all, beside what
    ranks printed (``paddle.distributed.launch``). The rank that fell silent first comes last,
    where one looks: the others only saw it go.
    """
    ranks = [path for path in folder.glob("workerlog.*") if path.is_file()]
    with log.open("ab") as target:
        for path in sorted(ranks, key=lambda path: -path.stat().st_mtime):
            target.write(f"\n--- {path.name}\n".encode())
            with path.open("rb") as source:
                shutil.copyfileobj(source, target)
            path.replace(log.parent / path.name)
    shutil.rmtree(folder, ignore_errors=True)


def descendants(pid: int) -> list[int]:
    """Return the pids of all living descendants of ``pid``, parents first."""
    if Path("/proc/self/task").exists():
        return _linux_descendants(pid)
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout
    children: dict[int, list[int]] = {}
    for line in listing.splitlines():
        child, parent = map(int, line.split())
        children.setdefault(parent, []).append(child)
    found, todo = [], list(children.get(pid, []))
    while todo:
        found.append(todo.pop())
        todo += children.get(found[-1], [])
    return found


def _linux_descendants(pid: int) -> list[int]:
    found: list[int] = []
    todo = [pid]
    while todo:
        try:
            threads = os.listdir(f"/proc/{todo[-1]}/task")
        except OSError:
            threads = []  # it ended while we looked
        parent = todo.pop()
        for thread in threads:
            try:
                text = Path(f"/proc/{parent}/task/{thread}/children").read_text(encoding="ascii")
            except OSError:
                continue  # it ended while we looked
            children = [int(word) for word in text.split()]
            found += children
            todo += children
    return found


if __name__ == "__main__":
    sys.exit(main())
