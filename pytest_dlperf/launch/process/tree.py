"""The processes below one, and their end. Standard library only: it is sent to far ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Final, Protocol, TypedDict

#: From SIGTERM to SIGKILL. A CI system's cancel leaves about 10 s in all.
GRACE_S: Final = 4.0
#: After SIGKILL: a process that still exists waits for a driver or a disk, perhaps forever.
UNKILLABLE_S: Final = 15.0
_POLL_S: Final = 0.05


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


def descendants(pid: int) -> list[int]:
    """Return the pids of all living descendants of ``pid``, parents first."""
    if Path("/proc/self/task").exists():
        return _linux_descendants(pid)
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout
    by_parent: dict[int, list[int]] = {}
    for line in listing.splitlines():
        child, parent = map(int, line.split())
        by_parent.setdefault(parent, []).append(child)
    pids, todo = [], list(by_parent.get(pid, []))
    while todo:
        pids.append(todo.pop())
        todo += by_parent.get(pids[-1], [])
    return pids


def _linux_descendants(pid: int) -> list[int]:
    pids: list[int] = []
    todo = [pid]
    while todo:
        own_children = children(todo.pop())
        pids += own_children
        todo += own_children
    return pids


def children(pid: int) -> list[int]:
    """Return the pids of the children of ``pid``, also of ended ones; none off Linux."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []  # it ended while we looked
    pids: list[int] = []
    for thread in threads:
        try:
            text = Path(f"/proc/{pid}/task/{thread}/children").read_text(encoding="ascii")
        except OSError:
            continue  # it ended while we looked
        pids += map(int, text.split())
    return pids
