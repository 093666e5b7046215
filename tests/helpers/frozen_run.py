"""A run that a freezer holds: a process in the place of a supervisor, with programs below it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from pytest_dlperf.launch.process.left_over import end_left_over
from pytest_dlperf.launch.turns.cgroup import Cgroup

HOME = Path(__file__).parents[2]
PROGRAMS = Path(__file__).with_name("frozen_programs.py")
#: In the place of a supervisor: does what lines say, and answers each with one.
HOLDER = """
import ctypes, os, subprocess, sys
sys.path.insert(0, sys.argv[1])
from pytest_dlperf.launch.turns.cgroup import Cgroup
from pytest_dlperf.launch.turns.freezer import PARENT_NAME, Freezer, set_name

ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # child subreaper
set_name(PARENT_NAME)
by, folder, *command = sys.argv[2:]
freezer = Freezer(folder, Cgroup.make() if by == "cgroup" else None)
env = {**os.environ, "DLPERF_RUN": folder}
launcher = subprocess.Popen(
    command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True,
    preexec_fn=freezer.join,
)
freezer.started(launcher.pid)
print(freezer._guard.pid, launcher.pid, flush=True)
for line in sys.stdin:
    answer = getattr(freezer, line.strip())()
    print(answer or "", flush=True)
"""


class FrozenRun:
    """A command below a holder, frozen ``by`` ``cgroup`` or ``signals``.

    A word alone is a program of ``frozen_programs.py``. Ends all that is left of it.
    """

    def __init__(
        self, folder: Path, command: str | Sequence[str], by: str, **process: Any
    ) -> None:
        self.folder = folder
        if isinstance(command, str):
            command = [sys.executable, str(PROGRAMS), command, str(folder)]
        self.holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(HOME), by, str(folder), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
            **process,
        )
        assert self.holder.stdout is not None
        self.guard, self.launcher = map(int, self.holder.stdout.readline().split())

    def __enter__(self) -> FrozenRun:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.holder.kill()
        end_left_over([str(self.folder)])
        for pid in self.pids():  # those without its variable
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.holder.communicate()

    def order(self, word: str) -> str:
        """Have the holder call this method of its freezer; return the answer."""
        assert self.holder.stdin is not None
        assert self.holder.stdout is not None
        self.holder.stdin.write(f"{word}\n")
        return self.holder.stdout.readline().strip()

    def pids(self) -> set[int]:
        """Return the processes that have counted and live."""
        counted = {int(path.name.partition("-")[2]) for path in self.folder.glob("count-*")}
        return {pid for pid in counted if letter(pid) not in "ZX"}

    def counts(self) -> dict[str, int]:
        """Return how far each process has counted."""
        return {
            path.name: int.from_bytes(path.read_bytes(), "big")
            for path in self.folder.glob("count-*")
        }

    def wait_until_it_counts(self, processes: int = 1) -> None:
        """Wait until so many processes count, or count again."""
        before = self.counts()
        wait_until(
            lambda: sum(n > before.get(name, 0) for name, n in self.counts().items()) >= processes
        )

    def stands_still(self) -> bool:
        """Return whether nobody counts for a while."""
        before = self.counts()
        time.sleep(0.1)
        return self.counts() == before


def wait_until(condition: Any) -> None:
    end_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end_s, "it did not come"
        time.sleep(0.01)


def letter(pid: int) -> str:
    """Return the state of a process, as ``ps`` has it; X without one."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return "X"
    return text.rpartition(")")[2].split()[0]


def has_cgroups() -> bool:
    """Return whether a cgroup of a run can be made here."""
    cgroup = Cgroup.make()
    if cgroup is not None:
        cgroup.remove()
    return cgroup is not None


def cgroups_of_runs() -> list[Path]:
    """Return the cgroups of runs that there are on this host."""
    return [
        Path(folder, name)
        for folder, names, _ in os.walk("/sys/fs/cgroup")
        for name in names
        if name.startswith("dlperf-run-")
    ]


def left_cgroups() -> list[Path]:
    """Return those that no supervisor and no guard has locked."""
    return [path for path in cgroups_of_runs() if not _is_locked(path)]


def _is_locked(folder: Path) -> bool:
    try:
        lock = os.open(folder, os.O_RDONLY)
    except OSError:
        return True  # it has just been removed
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return not folder.exists()
    finally:
        os.close(lock)
