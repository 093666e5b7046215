"""The cgroup (version 2) of a run: all of it stands still at once, and ends at once.

Standard library only: it is sent to far ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PREFIX: Final = "dlperf-run-"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
#: Of a freeze: a process that waits in the kernel, as for a disk, stands still when it is back.
_FREEZES_S: Final = 1.0
#: After SIGKILL; of what another run has left, whose end nobody waits for, less.
_ENDS_S: Final = 5.0
_LEFT_ENDS_S: Final = 0.5
_POLL_S: Final = 0.0005
#: For others who make or remove a cgroup. Anybody who may read a file may lock it, and for ever.
_LOCK_S: Final = 5.0
#: In ``cgroup.procs``, for a process that has no pid in this PID namespace. To ``kill`` it is all
#: processes of a group.
_OF_ANOTHER_NAMESPACE: Final = 0


class Cgroup:
    """A cgroup below the one that this process is in.

    It is locked as long as this process lives, or a child that it has forked: one that nobody
    locks is left of a run whose supervisor was killed.
    """

    def __init__(self, folder: Path, lock: int) -> None:
        self._folder = folder
        #: Descriptor that has the lock.
        self.lock = lock

    @classmethod
    def make(cls) -> Cgroup | None:
        """Return a new cgroup; None where this user may not make one, or it has no freezer."""
        parent = _own_folder()
        if parent is None:
            return None
        try:
            with _alone_below(parent):
                _remove_left(parent)
                # Not by the pid: that of another PID namespace may be the same
                folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
                lock = os.open(folder, _FOLDER)
                fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:
            return None  # read-only, or another user's
        cgroup = cls(folder, lock)
        if (folder / "cgroup.freeze").exists():  # since Linux 5.2
            return cgroup
        cgroup.remove()
        return None

    def add(self, pid: int) -> None:
        """Move a process into it.

        Raises ``OSError`` where its own cgroup is threaded, or does not let it go.
        """
        self._write("cgroup.procs", str(pid))

    def processes(self) -> set[int]:
        """Return the processes in it, and in those that a program has made below it."""
        return _processes(self._folder)

    def freeze(self) -> bool:
        """Freeze it; return whether all of it stands still, within a second.

        Raises ``OSError`` if somebody has removed it.
        """
        self._write("cgroup.freeze", "1")
        deadline_s = time.monotonic() + _FREEZES_S
        while "frozen 1" not in (self._folder / "cgroup.events").read_text("ascii"):
            if time.monotonic() > deadline_s:
                return False
            time.sleep(_POLL_S)
        return True

    def thaw(self) -> None:
        """Let its processes go on."""
        with contextlib.suppress(OSError):
            self._write("cgroup.freeze", "0")

    def remove(self) -> None:
        """Kill what is in it, frozen or not, and remove it."""
        _remove(self._folder, _ENDS_S)
        if self.lock >= 0:
            os.close(self.lock)
        self.lock = -1

    def _write(self, name: str, text: str) -> None:
        # Not made anew in a folder that is gone
        descriptor = os.open(self._folder / name, os.O_WRONLY)
        try:
            os.write(descriptor, text.encode("ascii"))
        finally:
            os.close(descriptor)


def remove_left_cgroups() -> None:
    """Remove the cgroups beside this process's that no process locks, with what is in them."""
    parent = _own_folder()
    if parent is not None:
        with contextlib.suppress(OSError), _alone_below(parent):  # it cannot be seen
            _remove_left(parent)


@contextlib.contextmanager
def _alone_below(parent: Path) -> Iterator[None]:
    """Keep others from making and removing cgroups there: a new one is not locked yet.

    Raises ``OSError`` where somebody else does not let go of the lock.
    """
    # Not the folder, which the supervisor of a run around this one locks
    lock = os.open(parent / "cgroup.procs", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _lock_within(lock, _LOCK_S)
        yield
    finally:
        os.close(lock)


def _lock_within(descriptor: int, limit_s: float) -> None:
    deadline_s = time.monotonic() + limit_s
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(_POLL_S)


def _remove_left(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*"):
        try:
            lock = os.open(folder, _FOLDER)
        except OSError:
            continue  # just removed, or another user's
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue  # its run is alive
        else:
            _remove(folder, _LEFT_ENDS_S)
        finally:
            os.close(lock)


def has_cgroup(pid: int) -> bool:
    """Return whether a process is in the cgroup of a run, so that who made that freezes it."""
    try:
        return f"/{_PREFIX}" in Path(f"/proc/{pid}/cgroup").read_text("utf-8")
    except OSError:
        return False  # it has ended


def leave() -> None:
    """Move this process out of the cgroup of its run: it, and what it starts, goes on.

    For what carries messages of a launch while that stands still.
    """
    folder = _own_folder()
    if folder is not None and folder.name.startswith(_PREFIX):
        with contextlib.suppress(OSError):
            (folder.parent / "cgroup.procs").write_text("0", encoding="ascii")


def _own_folder() -> Path | None:
    """Return the folder of the cgroup that this process is in; None if none can be seen."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text("utf-8")
        own = Path("/proc/self/cgroup").read_text("utf-8")
    except OSError:
        return None  # not Linux
    return folder_of(mounts, own)


def folder_of(mounts: str, own: str) -> Path | None:
    """Return the folder of a cgroup from ``/proc/PID/mountinfo`` and ``/proc/PID/cgroup``.

    None without the hierarchy of version 2, or where the cgroup is not below what is mounted.
    """
    inside = next((line[len("0::") :] for line in own.splitlines() if line.startswith("0::")), "")
    if not inside or ".." in inside.split("/"):
        return None
    for line in mounts.splitlines():
        fields, _, kind = line.partition(" - ")
        if kind.split()[0] != "cgroup2":
            continue
        # A container may have a part of the tree alone (proc_pid_mountinfo(5))
        root, mounted = map(_unescaped, fields.split()[3:5])
        path = os.path.relpath(inside, root)
        if ".." not in path.split("/"):
            return Path(mounted, path)
    return None


def _unescaped(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)


def _folders(folder: Path) -> list[str]:
    """Return ``folder`` and the cgroups below it, parents first."""
    return [path for path, _, _ in os.walk(folder)]


def _processes(folder: Path) -> set[int]:
    found: set[int] = set()
    for path in _folders(folder):
        with contextlib.suppress(OSError):  # removed meanwhile, or threaded: its parent has them
            found |= set(map(int, Path(path, "cgroup.procs").read_text("ascii").split()))
    return found


def _remove(folder: Path, within_s: float) -> None:
    deadline_s = time.monotonic() + within_s
    while pids := _processes(folder):
        # Also those of another user, since Linux 5.14; but none whose first thread has ended
        with contextlib.suppress(OSError):
            (folder / "cgroup.kill").write_text("1", encoding="ascii")
        for pid in pids - {_OF_ANOTHER_NAMESPACE}:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline_s:
            return  # SIGKILL does not end what waits for a driver or a disk
        time.sleep(_POLL_S)
    # One that has just ended may be there for a moment
    while folder.exists() and time.monotonic() < deadline_s:
        for path in reversed(_folders(folder)):
            with contextlib.suppress(OSError):
                os.rmdir(path)
        time.sleep(_POLL_S)
