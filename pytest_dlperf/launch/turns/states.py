"""What processes of this host do: their state, their start, their name.

Standard library only: it is sent to far ends.
"""

from __future__ import annotations

import os
from typing import NamedTuple

#: Letters of ``/proc/PID/stat`` (proc_pid_stat(5)).
STOPPED = "T"
TRACED = "t"
BLOCKED = "D"
ENDED = frozenset("ZXx")


class State(NamedTuple):
    """A process at one moment."""

    letter: str
    #: When it started, in ticks of the kernel: with the pid it names one process.
    start: str


def state_of(pid: int) -> State | None:
    """Return the state of a process, of its threads if its first has ended; None without one."""
    state = _read(f"/proc/{pid}/stat")
    if state is None or state.letter not in ENDED:
        return state
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return state
    for thread in threads if len(threads) > 1 else ():
        other = _read(f"/proc/{pid}/task/{thread}/stat")
        if other is not None and other.letter not in ENDED:
            return State(other.letter, state.start)
    return state


def is_still(pid: int, start: str) -> bool:
    """Return whether the process that started then has this pid, and no other one by now."""
    state = _read(f"/proc/{pid}/stat")
    return state is not None and state.start == start


def name_of(pid: int) -> str:
    """Return the name of a process, of at most 15 characters; empty without one."""
    try:
        return _text(f"/proc/{pid}/comm").strip()
    except OSError:
        return ""


def parent_of(pid: int) -> int:
    """Return the parent of a process; 0 without one."""
    try:
        return int(_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _read(path: str) -> State | None:
    try:
        fields = _text(path).rpartition(")")[2].split()
    except OSError:
        return None
    return State(fields[0], fields[19])


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
