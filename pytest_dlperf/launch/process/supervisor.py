"""Program that runs one launch as its child, and ends every process of it.

It is run by its path, so it imports the standard library and modules of its own folder only. It is
a child subreaper, so every process of the launch stays its descendant, also one that makes a new
session or loses its parent. It holds the descriptor of the lease, which its launch does not
inherit. Its standard input is a pipe from pytest: end of file means that pytest is gone. When the
launcher ends, at the timeout, at a signal, at end of file, or when logs grow too long, it
terminates, then kills and reaps all descendants, writes the reason to ``supervisor.json``, and
only then exits, which frees the lease.
"""

from __future__ import annotations

import argparse
import contextlib
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
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypedDict

if __package__ or TYPE_CHECKING:
    from pytest_dlperf.launch.process.run_logs import CappedLog, RankLogs, absorb_logs
else:
    # Last, so that no file of this folder hides a module of the standard library.
    sys.path.append(str(Path(__file__).parent))
    from run_logs import CappedLog, RankLogs, absorb_logs

_PR_SET_CHILD_SUBREAPER: Final = 36  # prctl(2), Linux 3.4
_POLL_S: Final = 0.05
#: From SIGTERM to SIGKILL. A CI system's cancel leaves about 10 s in all.
GRACE_S: Final = 4.0
#: After SIGKILL: a process that still exists waits for a driver or a disk, perhaps forever.
UNKILLABLE_S: Final = 15.0
_SIZES_EVERY_S: Final = 1.0


class _End(TypedDict):
    #: Values of ``core.run.EndReason``, which this program does not import. The last three are of
    #: ``execute.py``, for a supervisor that wrote no report.
    end: Literal[
        "exited", "timeout", "asked-to-end", "pytest-gone", "logs-too-long", "not-started",
        "supervisor-died", "supervisor-stopped", "report-not-written",
    ]  # fmt: skip


class Report(_End, total=False):
    """``supervisor.json``: how a launch ended."""

    #: What is known beside the reason, where a word does not say it all.
    message: str
    #: Of the launcher; None where it was ended.
    exit_code: int | None
    #: Pids that lived when the launch ended, or was to end.
    alive: list[int]
    #: How many of them SIGKILL had to end, and those that it did not end.
    killed: int
    unkilled: list[int]
    #: Processes of this host that the kernel has killed for memory meanwhile.
    oom_kills: int
    #: Why the log is cut short.
    log_error: str


def main(argv: list[str] | None = None) -> int:
    """Run the command after ``--`` to its end; return 0 if ``supervisor.json`` was written.

    Else return the number of the error that kept it from being written.
    """
    parser = argparse.ArgumentParser(prog="supervisor.py")
    parser.add_argument("--timeout-s", type=float, required=True)
    parser.add_argument("--workdir", type=Path, required=True)
    parser.add_argument("--private-logs", type=Path)
    parser.add_argument("--rank-logs", default="", help="glob of ranks' logs in the workdir")
    parser.add_argument("--temporary", type=Path, help="folder to remove at the end")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args(argv)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    asked_to_end: list[int] = []
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda received, _frame: asked_to_end.append(received))
    rank_logs = RankLogs(arguments.workdir, arguments.rank_logs, arguments.private_logs)
    oom_kills = _oom_kills()
    try:
        report = _launch(arguments, rank_logs, asked_to_end)
        rank_logs.cap()
        if arguments.private_logs is not None:
            absorb_logs(arguments.private_logs, arguments.workdir / "output.log")
        report["oom_kills"] = _oom_kills() - oom_kills
        partial = arguments.workdir / "supervisor.json.partial"
        partial.write_text(json.dumps(report), encoding="utf-8")
        partial.replace(arguments.workdir / "supervisor.json")
    except OSError as error:
        end_descendants(gently=False)
        return error.errno or 1
    finally:
        if arguments.temporary is not None:
            shutil.rmtree(arguments.temporary, ignore_errors=True)
    return 0


def _launch(arguments: argparse.Namespace, rank_logs: RankLogs, asked_to_end: list[int]) -> Report:
    command = arguments.command[1:]
    reading, writing = os.pipe()
    with CappedLog(arguments.workdir / "output.log", reading) as log:
        try:
            launcher = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            message = f"{command[0]}: {error.strerror}"
            return {"exit_code": None, "end": "not-started", "message": message}
        finally:
            os.close(writing)
        deadline_s = time.monotonic() + arguments.timeout_s
        report = _wait_for_end(launcher, deadline_s, asked_to_end, log, rank_logs)
        # Unknown where the launcher has to be ended.
        report["exit_code"] = launcher.returncode
        report["alive"] = descendants(os.getpid())
        ended = end_descendants(gently=report["end"] != "exited", log=log)
        report["killed"] = ended["killed"]
        if "unkilled" in ended:
            report["unkilled"] = ended["unkilled"]
        log.drain()
    if log.error:
        report["log_error"] = log.error
    return report


def _wait_for_end(
    launcher: subprocess.Popen[bytes],
    deadline_s: float,
    asked_to_end: list[int],
    log: CappedLog,
    rank_logs: RankLogs,
) -> Report:
    pytest_pipe = sys.stdin.fileno()
    sizes_at_s = time.monotonic()
    while True:
        if launcher.poll() is not None:
            return {"end": "exited"}
        if asked_to_end:
            return {"end": "asked-to-end"}
        now_s = time.monotonic()
        if now_s > deadline_s:
            return {"end": "timeout"}
        if now_s > sizes_at_s:
            sizes_at_s = now_s + _SIZES_EVERY_S
            if message := rank_logs.too_long():
                return {"end": "logs-too-long", "message": message}
        readable, _, _ = select.select([pytest_pipe, *log.descriptors], [], [], _POLL_S)
        if pytest_pipe in readable and not os.read(pytest_pipe, 1):
            return {"end": "pytest-gone"}
        if set(readable) - {pytest_pipe}:
            log.take()


class Drained(Protocol):
    """A buffer of the descendants' output, such as a pipe."""

    def drain(self) -> None:
        """Read what is there, so that no process blocks on a write."""
        ...


class _Killed(TypedDict):
    killed: int


class Killed(_Killed, total=False):
    """How many descendants had to be killed, and which of them SIGKILL did not end."""

    unkilled: list[int]


def end_descendants(*, gently: bool, log: Drained | None = None) -> Killed:
    """Terminate, then kill and reap every descendant; return how many had to be killed.

    Repeats until none is left: a process may make another while it is being killed. Those that
    even SIGKILL does not end in time are returned as ``unkilled``.
    """
    if gently:
        _signal_all(signal.SIGTERM)
        deadline_s = time.monotonic() + GRACE_S
        while descendants(os.getpid()) and time.monotonic() < deadline_s:
            _reap()
            if log is not None:
                log.drain()
            time.sleep(_POLL_S)
    killed: set[int] = set()
    deadline_s = time.monotonic() + UNKILLABLE_S
    while True:
        _reap()
        living = descendants(os.getpid())
        if not living:
            return {"killed": len(killed)}
        if time.monotonic() > deadline_s:
            return {"killed": len(killed), "unkilled": living}
        killed |= set(living)
        # None of them can start another between the two.
        _signal_all(signal.SIGSTOP)
        _signal_all(signal.SIGKILL)
        time.sleep(_POLL_S / 5)


def _signal_all(number: int) -> None:
    # Ranks before their launcher: Paddle's kills them as soon as it gets SIGTERM, and a rank
    # that is killed cannot report where it was.
    for pid in reversed(descendants(os.getpid())):
        # It may have ended by itself, or be another user's, as a setuid program is.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _reap() -> None:
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


def _oom_kills() -> int:
    """Return how many processes of this host the kernel has killed for memory since it started."""
    try:
        text = Path("/proc/vmstat").read_text(encoding="ascii")
    except OSError:
        return 0
    return sum(int(n) for name, n in map(str.split, text.splitlines()) if name == "oom_kill")


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
    pids, todo = [], list(children.get(pid, []))
    while todo:
        pids.append(todo.pop())
        todo += children.get(pids[-1], [])
    return pids


def _linux_descendants(pid: int) -> list[int]:
    pids: list[int] = []
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
            pids += children
            todo += children
    return pids


if __name__ == "__main__":
    sys.exit(main())
