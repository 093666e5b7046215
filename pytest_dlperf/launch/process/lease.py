"""The host's lease: a file lock, so that one case measures on a host at a time.

The lock (``flock``) belongs to a descriptor that the supervisor holds too: the lease is free only
when the pytest process and every supervisor that it started are gone. The file is never removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_dlperf.core import runtime_folder

_POLL_S: Final = 0.2
#: Between two messages about who holds the lease: on a busy host holders change all the time.
_AGAIN_S: Final = 60.0
#: Wait before advice on a holder is given: on one that lives, and on one that has ended but left
#: processes of its run.
_LONG_S: Final = 600.0
_ENDED_S: Final = 30.0
_UNKNOWN: Final = "another process"  # it has just taken it, and not written yet


@contextlib.contextmanager
def host_lease(
    case_id: str,
    *,
    on_wait: Callable[[str], None] | None = None,
    on_poll: Callable[[], None] | None = None,
) -> Iterator[int]:
    """Hold this host's lease; yield its descriptor.

    Waits without limit while another process holds it. ``on_wait`` is called with the holder: at
    once; when the holder has changed, at most once a minute; and with advice when one holds it
    for long, or has ended and left a process that holds it. ``on_poll`` is called at each look.
    """
    path = _path()
    waiting = _Waiting(path, on_wait or (lambda words: None))
    descriptor = _take(path, waiting, on_poll or (lambda: None))
    try:
        with runtime_folder.naming(path):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "case": case_id}).encode(), 0)
        yield descriptor
    finally:
        # Closing does not unlock while a supervisor still holds a copy, as intended.
        os.close(descriptor)


def lease_holder() -> str | None:
    """Return who holds this host's lease now; None if it is free."""
    path = _path()
    descriptor = _open(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _holder(descriptor)
        if holder is None:
            return _UNKNOWN
        return holder.text if _lives(holder.pid) else f"{holder.text}, {_left_by(holder, path)}"
    else:
        return None
    finally:
        os.close(descriptor)


@dataclass(frozen=True, kw_only=True, slots=True)
class Holder:
    """The process that holds the lease, read from the lease's file."""

    pid: int
    case_id: str

    @property
    def text(self) -> str:
        """Return the holder for people: ``pid 123 (case)``."""
        return f"pid {self.pid} ({self.case_id})"


def _path() -> Path:
    return runtime_folder.folder() / "host.lease"


def _open(path: Path) -> int:
    with runtime_folder.naming(path):
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _take(path: Path, waiting: _Waiting, on_poll: Callable[[], None]) -> int:
    """Return a descriptor of ``path`` that holds its lock, however long that takes."""
    while True:
        descriptor = _open(path)
        try:
            while True:
                try:
                    with runtime_folder.naming(path):
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    waiting.go_on(_holder(descriptor))
                    on_poll()
                    time.sleep(_POLL_S)
            if _is_in_place(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        # The file was removed meanwhile: other processes lock another one.
        os.close(descriptor)


def _is_in_place(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _holder(descriptor: int) -> Holder | None:
    """Return the holder that the file names; None before a holder has written it."""
    try:
        values = json.loads(os.pread(descriptor, 4096, 0))
        return Holder(pid=int(values["pid"]), case_id=str(values["case"]))
    except (ValueError, KeyError, TypeError):
        return None


class _Waiting:
    """Decides when ``on_wait`` is called while another process holds the lease."""

    def __init__(self, path: Path, on_wait: Callable[[str], None]) -> None:
        self._path = path
        self._on_wait = on_wait
        self._holder: Holder | None = None
        self._since_s = self._said_s = -1.0

    def go_on(self, holder: Holder | None) -> None:
        """Report the holder, if it is time."""
        now_s = time.monotonic()
        is_first = self._said_s < 0
        if is_first or holder != self._holder:
            self._since_s = now_s
            is_too_soon = not is_first and now_s - self._said_s < _AGAIN_S
            # A holder that is not reported now counts as new once a minute is over.
            self._holder = self._holder if is_too_soon else holder
            if not is_too_soon:
                self._report(holder.text if holder else _UNKNOWN, now_s)
        elif holder is not None and now_s - self._said_s > self._patience_s(holder):
            self._report(f"{holder.text}{self._advice(holder, now_s - self._since_s)}", now_s)

    def _report(self, words: str, now_s: float) -> None:
        self._said_s = now_s
        self._on_wait(words)

    def _patience_s(self, holder: Holder) -> float:
        return _LONG_S if _lives(holder.pid) else _ENDED_S

    def _advice(self, holder: Holder, waited_s: float) -> str:
        if not _lives(holder.pid):
            return f", {_left_by(holder, self._path)}"
        return (
            f", for {waited_s / 60:.0f} min so far; if that session hangs, end it with "
            f"`kill {holder.pid}`: its run ends with it, and the host is free"
        )


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _left_by(holder: Holder, path: Path) -> str:
    """Return what still holds the lease of a process that has ended, and what to do about it."""
    left = _pids_that_hold(path)
    if not left:
        return (
            "which has ended, or runs in another container; find what still has "
            f"{path} open (`fuser {path}`), and end that"
        )
    pids = " ".join(map(str, left))
    return (
        f"which has ended; what is left of its run, pid {', '.join(map(str, left))}, still holds "
        f"the host; it ends within seconds, and if it does not, end it with `kill -9 {pids}`"
    )


def _pids_that_hold(path: Path) -> list[int]:
    """Return this user's processes that hold the file's lock, where the kernel shows them."""
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            descriptors = os.listdir(process / "fd")
        except OSError:
            continue  # it ended, or belongs to another user
        if any(_has_lock(process, descriptor, path.resolve()) for descriptor in descriptors):
            pids.append(int(process.name))
    return sorted(pids)


def _has_lock(process: Path, descriptor: str, path: Path) -> bool:
    try:
        if os.readlink(process / "fd" / descriptor) != str(path):
            return False
        return "lock:" in (process / "fdinfo" / descriptor).read_text(encoding="ascii")
    except OSError:
        return False  # it was closed while we looked
