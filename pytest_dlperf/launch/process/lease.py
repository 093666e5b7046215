"""The host's lease: one case measures at a time, whatever process it belongs to.

A lock of the file (``flock``) whose descriptor the supervisor holds too: it is free only when
the pytest process and every supervisor that it started are gone. The file is never removed.
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
#: Between two sentences about who holds the lease: on a busy host holders change all the time.
_AGAIN_S: Final = 60.0
#: After as long one is told what to do about a holder: one that lives, and one that has ended,
#: of whose run something is left.
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

    Waits without bound while another holds it, and calls ``on_wait`` with who that is: at
    once, when it has changed, though at most once a minute, and with what to do when one holds
    it for long, or has ended and left something that holds it. ``on_poll`` is called now and then.
    """
    path = _path()
    waiting = _Waiting(path, on_wait or (lambda words: None))
    descriptor = _take(path, waiting, on_poll or (lambda: None))
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "case": case_id}).encode(), 0)
        yield descriptor
    finally:
        # Closing does not unlock while a supervisor still holds a copy: that is the point.
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
        return holder.words if _lives(holder.pid) else f"{holder.words}, {_left_by(holder, path)}"
    else:
        return None
    finally:
        os.close(descriptor)


@dataclass(frozen=True, kw_only=True, slots=True)
class Holder:
    """Who has taken the lease, as its file says."""

    pid: int
    case_id: str

    @property
    def words(self) -> str:
        """Return it for people: ``pid 123 (case)``."""
        return f"pid {self.pid} ({self.case_id})"


def _path() -> Path:
    return runtime_folder.folder() / "host.lease"


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _take(path: Path, waiting: _Waiting, on_poll: Callable[[], None]) -> int:
    """Return a descriptor of ``path`` that holds its lock, however long that takes."""
    while True:
        descriptor = _open(path)
        try:
            while True:
                try:
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
        # Somebody has removed the file meanwhile: who comes now locks another one.
        os.close(descriptor)


def _is_in_place(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _holder(descriptor: int) -> Holder | None:
    """Return who has written that it holds the lease; None if nobody has yet."""
    try:
        values = json.loads(os.pread(descriptor, 4096, 0))
        return Holder(pid=int(values["pid"]), case_id=str(values["case"]))
    except (ValueError, KeyError, TypeError):
        return None


class _Waiting:
    """What is said while the lease is another's."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self._path = path
        self._say = say
        self._holder: Holder | None = None
        self._since_s = self._said_s = -1.0

    def go_on(self, holder: Holder | None) -> None:
        """Say who it is, if it is time."""
        now_s = time.monotonic()
        is_first = self._said_s < 0
        if is_first or holder != self._holder:
            self._since_s = now_s
            is_told = not is_first and now_s - self._said_s < _AGAIN_S
            # Who is not told now counts as new once a minute is over.
            self._holder = self._holder if is_told else holder
            if not is_told:
                self._tell(holder.words if holder else _UNKNOWN, now_s)
        elif holder is not None and now_s - self._said_s > self._patience_s(holder):
            self._tell(f"{holder.words}{self._advice(holder, now_s - self._since_s)}", now_s)

    def _tell(self, words: str, now_s: float) -> None:
        self._said_s = now_s
        self._say(words)

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
    """Return what holds the lease of a process that has ended, and what to do about it."""
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
    """Return the processes of this user that have the file's lock, where the kernel tells."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(link) == str(path.resolve()):
                information = link.parents[1] / "fdinfo" / link.name
                if "lock:" in information.read_text(encoding="ascii"):
                    found.add(int(link.parents[1].name))
        except OSError:
            continue  # it ended, or is somebody else's
    return sorted(found)
