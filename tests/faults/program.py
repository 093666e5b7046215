"""A plain program that trains nothing, marks its steps, and does what its fault is named for.

``program.py FAULT [ITERATIONS]``: one rank, which needs no framework.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from pytest_dlperf.mark import step

RUN = Path(os.environ["DLPERF_RUN"])
LATE = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"


def main() -> None:
    fault, iterations = sys.argv[1], int(sys.argv[2])
    if fault in BEFORE:
        now(fault)
    for done in range(iterations):
        with step() as one:
            time.sleep(0.002)
            if done == 4 and fault in WITHIN:
                now(fault)
            one.loss(1 / (done + 1))
    if fault in AFTER:
        now(fault)


def now(fault: str) -> None:
    (RUN.parent / "fault-at").write_text(str(time.time()), encoding="ascii")
    {**BEFORE, **WITHIN, **AFTER}[fault]()


def raises() -> None:
    raise ValueError("boom in step")


def leaves() -> None:
    os._exit(0)


def is_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def crashes() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.string_at(0)


def hangs() -> None:
    time.sleep(600)


def ignores_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)


def closes_stdout() -> None:
    os.close(1)
    os.close(2)


def reads_stdin() -> None:
    if sys.stdin.read():
        raise ValueError("standard input has something")


def leaves_daemons() -> None:
    """Leave processes in sessions of their own that ignore SIGTERM; their parents are gone."""
    for _ in range(20):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execv(sys.executable, [sys.executable, "-S", "-c", LATE])
            os._exit(0)
    raise ValueError("boom, and daemons are left")


def forks_on() -> None:
    """Leave a process that goes from one to the next, each the child of one that is gone."""
    if os.fork() == 0:
        while True:
            if os.fork():
                os._exit(0)
            time.sleep(0.01)
    time.sleep(0.2)
    os._exit(3)


def launcher_is_killed() -> None:
    """Die of SIGKILL, and leave what a launcher started."""
    subprocess.Popen([sys.executable, "-S", "-c", LATE], start_new_session=True)
    is_killed()


def tears_its_records() -> None:
    [path] = RUN.glob("rank*.jsonl")
    with path.open("a", encoding="utf-8") as file:
        file.write('{"rank": 0, "record": "spa')
    is_killed()


def removes_the_folder() -> None:
    shutil.rmtree(RUN)


def kills_the_supervisor() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)


def is_short_of_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
    bytearray(2**31)


def is_killed_for_memory() -> None:
    Path(os.environ["FAULT_CGROUP"], "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    taken = []
    while True:
        taken.append(bytearray(os.urandom(2**20)))


def fills_the_disk() -> None:
    with (RUN / "checkpoint").open("wb") as file:
        while True:
            file.write(bytes(2**20))


def meets_the_limit_of_a_file() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
    fills_the_disk()


def prints_on_and_on() -> None:
    line = b"x" * 99 + b"\n"
    os.write(1, b"the first line\n")
    for _ in range(200):
        os.write(1, line * 10486)
    os.write(1, b"the last line\n")


BEFORE = {"hangs-at-start": hangs}
WITHIN = {
    "raises": raises,
    "leaves": leaves,
    "is-killed": is_killed,
    "crashes": crashes,
    "hangs": hangs,
    "ignores-sigterm": ignores_sigterm,
    "leaves-daemons": leaves_daemons,
    "forks-on": forks_on,
    "launcher-is-killed": launcher_is_killed,
    "tears-its-records": tears_its_records,
    "removes-the-folder": removes_the_folder,
    "kills-the-supervisor": kills_the_supervisor,
    "is-short-of-memory": is_short_of_memory,
    "is-killed-for-memory": is_killed_for_memory,
    "fills-the-disk": fills_the_disk,
    "meets-the-limit-of-a-file": meets_the_limit_of_a_file,
    "closes-stdout": closes_stdout,
    "reads-stdin": reads_stdin,
}
#: After the marks have all they need.
AFTER = {"prints-on-and-on": prints_on_and_on}


if __name__ == "__main__":
    main()
