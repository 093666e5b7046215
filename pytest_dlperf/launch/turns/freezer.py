"""Freezes every process of a run on this host between its turns, and thaws it for the next.

By the freezer of a cgroup (version 2) where this user may make one, and by SIGSTOP and SIGCONT for
the processes outside of it: those of Slurm's daemon, and all of them without such a cgroup. A
guard kills what is frozen if this process dies. Standard library only: it is sent to far ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pytest_dlperf.launch.process.left_over import names_run
from pytest_dlperf.launch.process.tree import descendants

#: Names of the processes of this package that a run has: those whose children are the run's, and
#: those whose children carry messages to other nodes. Neither is frozen, nor what carries them.
PARENT_NAME: Final = "dlperf-parent"
CHANNEL_NAME: Final = "dlperf-channel"
_PR_SET_NAME: Final = 15  # prctl(2)
#: A process that is told to stop does so when it next leaves the kernel, unless that waits.
_STOPS_S: Final = 1.0
_POLL_S: Final = 0.0005
#: Letters of ``/proc/PID/stat`` (proc(5)): stopped, traced, dead, and waiting in the kernel, from
#: where a stopped process does not return.
_STANDS: Final = frozenset("TtZXxD")


def set_name(name: str) -> None:
    """Give this process one of the names above."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


class Freezer:
    """The processes of the run in ``folder`` on this host: descendants, and those that name it."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._cgroup = _Cgroup.make()
        #: Processes whose environment was read, and those of them that name the run.
        self._looked_at: set[int] = set()
        self._named: set[int] = set()
        self._stopped: list[int] = []
        self._guard = _Guard(self._cgroup)

    def add(self, pid: int) -> None:
        """Have the launcher ``pid``, and what it starts from now on, frozen by the cgroup."""
        if self._cgroup is not None:
            self._cgroup.add(pid)

    def freeze(self) -> str:
        """Freeze the run; return which of its processes do not stand still, or nothing."""
        self._guard.watch([], in_cgroup=True)
        if self._cgroup is not None:
            self._cgroup.freeze()
        deadline_s = time.monotonic() + _STOPS_S
        stopped: dict[int, None] = {}
        while moving := [pid for pid in self._outside() if not _stands(pid)]:
            stopped.update(dict.fromkeys(moving))
            self._guard.watch(stopped, in_cgroup=True)
            for pid in moving:
                try:
                    os.kill(pid, signal.SIGSTOP)
                except ProcessLookupError:
                    continue
                except PermissionError:
                    self._stopped = list(stopped)
                    return f"pid {pid} ({_name(pid)}) belongs to another user"
            if time.monotonic() > deadline_s:
                self._stopped = list(stopped)
                return f"pid {moving[0]} ({_name(moving[0])}) does not stop"
            time.sleep(_POLL_S)
        self._stopped = list(stopped)
        return ""

    def thaw(self) -> None:
        """Let the run go on."""
        if self._cgroup is not None:
            self._cgroup.thaw()
        # Children first: a parent may look whether they go on
        for pid in reversed(self._stopped):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGCONT)
        self._stopped = []
        self._guard.watch([], in_cgroup=False)

    def close(self) -> None:
        """Let the run go on, for good."""
        self.thaw()
        self._guard.close()

    def remove(self) -> None:
        """Remove the cgroup, once the run has ended."""
        if self._cgroup is not None:
            self._cgroup.remove()

    def _outside(self) -> list[int]:
        """Return the processes of the run that the cgroup does not have, parents first."""
        inside = self._cgroup.processes() if self._cgroup is not None else set()
        tree = dict.fromkeys(descendants(os.getpid()))
        for pid in self._named_processes() - tree.keys():
            if _parent_name(pid) != CHANNEL_NAME:
                tree.update(dict.fromkeys([pid, *descendants(pid)]))
        not_of_it = {os.getpid(), self._guard.pid} | inside
        ours = {PARENT_NAME, CHANNEL_NAME}
        return [pid for pid in tree if pid not in not_of_it and _name(pid) not in ours]

    def _named_processes(self) -> set[int]:
        """Return the processes whose environment names the run; each is looked at once."""
        living = {int(name) for name in os.listdir("/proc") if name.isdecimal()}
        for pid in living - self._looked_at:
            if names_run(pid, [self._folder]):
                self._named.add(pid)
        self._looked_at, self._named = living, self._named & living
        return self._named


class _Cgroup:
    """A cgroup of this process's own, below the one that it is in."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def make(cls) -> _Cgroup | None:
        """Return a new cgroup; None where this user may not make one, or it has no freezer."""
        try:
            mounts = Path("/proc/self/mounts").read_text("utf-8").splitlines()
            root = next(line.split()[1] for line in mounts if line.split()[2] == "cgroup2")
            own = Path("/proc/self/cgroup").read_text("utf-8").splitlines()
            inside = next(line[len("0::/") :] for line in own if line.startswith("0::/"))
            cgroup = cls(Path(root, inside, f"dlperf-{os.getpid()}"))
            cgroup._folder.mkdir()
        except (OSError, StopIteration):
            return None
        if (cgroup._folder / "cgroup.freeze").exists():  # since Linux 5.2
            return cgroup
        cgroup.remove()
        return None

    def add(self, pid: int) -> None:
        """Move a process into it; one that may not be moved is stopped by signals."""
        with contextlib.suppress(OSError):
            self._write("cgroup.procs", str(pid))

    def processes(self) -> set[int]:
        """Return the processes in it."""
        return set(map(int, (self._folder / "cgroup.procs").read_text("ascii").split()))

    def freeze(self) -> None:
        """Freeze it, and wait for that."""
        self._write("cgroup.freeze", "1")
        deadline_s = time.monotonic() + _STOPS_S
        while "frozen 1" not in (self._folder / "cgroup.events").read_text("ascii"):
            if time.monotonic() > deadline_s:
                return  # some wait in the kernel, and do not come back from there
            time.sleep(_POLL_S)

    def thaw(self) -> None:
        """Let its processes go on."""
        with contextlib.suppress(FileNotFoundError):
            self._write("cgroup.freeze", "0")

    def remove(self) -> None:
        """Remove it; one that still has processes stays."""
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def kill(self) -> None:
        """Kill its processes, and remove it."""
        with contextlib.suppress(OSError):
            for pid in self.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self.thaw()
        self.remove()

    def _write(self, name: str, text: str) -> None:
        (self._folder / name).write_text(text, encoding="ascii")


class _Guard:
    """A child that kills what is frozen when this process dies: else it would stay so for ever."""

    def __init__(self, cgroup: _Cgroup | None) -> None:
        reading, self._pipe = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _guard(reading, cgroup)
            finally:
                os._exit(0)
        os.close(reading)

    def watch(self, pids: Iterable[int], *, in_cgroup: bool) -> None:
        """Kill ``pids`` at this process's death, and those in the cgroup; none from now on."""
        with contextlib.suppress(BrokenPipeError):  # somebody killed it
            os.write(self._pipe, f"{int(in_cgroup)} {' '.join(map(str, pids))}\n".encode())

    def close(self) -> None:
        """End it."""
        os.close(self._pipe)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def _guard(pipe: int, cgroup: _Cgroup | None) -> None:
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    # The lease, and the pipes of the launch, are not its own
    os.closerange(0, pipe)
    os.closerange(pipe + 1, 1024)
    text = b""
    while data := os.read(pipe, 65536):
        text = (text + data)[-65536:]
    in_cgroup, *pids = (text.rsplit(b"\n", 2)[-2:-1] or [b"0"])[0].split()
    for pid in map(int, pids):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    if cgroup is not None and int(in_cgroup):
        cgroup.kill()


def _stands(pid: int) -> bool:
    """Return whether a process does nothing, or is no more."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return True
    return text.rpartition(")")[2].split()[0] in _STANDS


def _parent_name(pid: int) -> str:
    """Return the name of this package's process that ``pid`` is below, nearest first, if any."""
    while pid > 1:
        if (name := _name(pid)) in (PARENT_NAME, CHANNEL_NAME):
            return name
        try:
            text = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
        except OSError:
            return ""
        pid = int(text.rpartition(")")[2].split()[1])
    return ""


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8", errors="replace").strip()
    except OSError:
        return ""
