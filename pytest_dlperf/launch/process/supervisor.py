"""Program that runs one launch as its child, and ends every process of it.

It is run by its path, and imports the standard library and what is sent to far ends only. It is a
child subreaper, so every process of the launch stays its descendant, also one that makes a new
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
from typing import Final, Literal, TypedDict

if __name__ == "__main__":  # run by its path, in isolated mode
    # Last, so that nothing there hides a module of the standard library
    sys.path.append(str(Path(__file__).resolve().parents[3]))

from pytest_dlperf.launch.process.run_logs import CappedLog, RankLogs, absorb_logs
from pytest_dlperf.launch.process.tree import descendants, end_descendants
from pytest_dlperf.launch.turns.freezer import CHANNEL_NAME, PARENT_NAME, set_name
from pytest_dlperf.launch.turns.lines import Lines
from pytest_dlperf.launch.turns.node import GivenTurns, NodeTurns

_PR_SET_CHILD_SUBREAPER: Final = 36  # prctl(2), Linux 3.4
_POLL_S: Final = 0.05
_SIZES_EVERY_S: Final = 1.0


class _End(TypedDict):
    #: Values of ``core.run.EndReason``, which this program does not import. The last three are of
    #: ``execute.py``, for a supervisor that wrote no report.
    end: Literal[
        "exited", "timeout", "asked-to-end", "pytest-gone", "logs-too-long", "not-started",
        "no-turns", "supervisor-died", "supervisor-stopped", "report-not-written",
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
    parser.add_argument("--referee", type=int, help="descriptor of the socket to a pair's referee")
    parser.add_argument("--turns", type=int, help="ranks that report their turns")
    parser.add_argument("--records", type=Path, help="folder of the ranks' records")
    parser.add_argument(
        "--is-channel", action="store_true", help="the command starts no rank here"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args(argv)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    set_name(CHANNEL_NAME if arguments.is_channel else PARENT_NAME)
    # Where a parent ignores it, the kernel keeps no exit codes, and a launcher's would be 0
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
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
    with (
        CappedLog(arguments.workdir / "output.log", reading) as log,
        contextlib.ExitStack() as stack,
    ):
        given = None
        if arguments.referee is not None and not arguments.is_channel:
            try:
                node = NodeTurns(arguments.records, arguments.turns, str(arguments.workdir))
            except OSError as error:
                os.close(writing)
                message = f"{error.filename or arguments.records}: {error.strerror}"
                return {"exit_code": None, "end": "no-turns", "message": message}
            stack.callback(node.remove)
            given = GivenTurns(Lines(arguments.referee), node)
        try:
            launcher = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # The command gives their turns to the ranks of other nodes
                pass_fds=[arguments.referee] if arguments.referee and given is None else [],
                # Before it starts any: what is outside the cgroup is stopped one by one
                preexec_fn=given.join if given is not None else None,  # noqa: PLW1509 - one thread
            )
        except OSError as error:
            message = f"{command[0]}: {error.strerror}"
            return {"exit_code": None, "end": "not-started", "message": message}
        finally:
            os.close(writing)
        if given is not None:
            given.started(launcher.pid)
        deadline_s = time.monotonic() + arguments.timeout_s
        report = _wait_for_end(launcher, deadline_s, asked_to_end, log, rank_logs, given)
        if given is not None:
            given.close()  # what is frozen cannot end by itself
        # Unknown where the launcher has to be ended.
        report["exit_code"] = launcher.returncode
        report["alive"] = descendants(os.getpid())
        if arguments.is_channel and report["end"] != "exited":
            launcher.terminate()  # before its channels, whose end would be that of nodes to it
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
    given: GivenTurns | None,
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
        turns = given.descriptors if given is not None else []
        readable, _, _ = select.select([pytest_pipe, *turns, *log.descriptors], [], [], _POLL_S)
        if pytest_pipe in readable and not os.read(pytest_pipe, 1):
            return {"end": "pytest-gone"}
        if given is not None and set(readable) & set(turns):
            given.go_on(readable, lambda: _sizes(log, rank_logs))
        if set(readable) & set(log.descriptors):
            log.take()


def _sizes(log: CappedLog, rank_logs: RankLogs) -> dict[str, int]:
    """Return the bytes of each log of a run that is frozen."""
    log.drain()
    return {**rank_logs.sizes(), "output.log": log.size}


def _oom_kills() -> int:
    """Return how many processes of this host the kernel has killed for memory since it started."""
    try:
        text = Path("/proc/vmstat").read_text(encoding="ascii")
    except OSError:
        return 0
    return sum(int(n) for name, n in map(str.split, text.splitlines()) if name == "oom_kill")


if __name__ == "__main__":
    sys.exit(main())
