"""Freezes every process of a run on this host between its turns, and thaws it for the next.

By the freezer of a cgroup (version 2) where this user may make one, and by SIGSTOP and SIGCONT for
the processes outside of it: those of Slurm's daemon, and all of them without such a cgroup. A
guard kills what is frozen if this process dies. Standard library only: it is sent to far ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import signal
import sys
import time
from typing import Final

from pytest_dlperf.launch.process.left_over import names_run
from pytest_dlperf.launch.process.tree import children, descendants
from pytest_dlperf.launch.turns.cgroup import Cgroup, has_cgroup
from pytest_dlperf.launch.turns.guard import Guard
from pytest_dlperf.launch.turns.states import (
    BLOCKED,
    ENDED,
    STOPPED,
    TRACED,
    is_still,
    name_of,
    parent_of,
    state_of,
)

#: Names of the processes of this package that a run has: those whose children are the run's, and
#: those whose children carry messages to other nodes. Neither is frozen, nor what carries them.
PARENT_NAME: Final = "dlperf-parent"
CHANNEL_NAME: Final = "dlperf-channel"
_PR_SET_NAME: Final = 15  # prctl(2)
#: A process that is told to stop does so when it next leaves the kernel. One that waits there for
#: so long, as for a disk, stands still as it is.
_WAITS_S: Final = 0.1
#: After that a process that goes on is said to. It counts from when the last one was told to stop,
#: as looking for them takes seconds on a machine that others keep busy.
_STOPS_S: Final = 1.0
#: So is a run that begins others for so long, from when the first ones were told.
_FREEZES_S: Final = 10.0
_POLL_S: Final = 0.0005
_STANDS: Final = ENDED | {STOPPED, TRACED}


def set_name(name: str) -> None:
    """Give this process one of the names above."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


class Freezer:
    """The processes of the run in ``folder`` on this host: descendants, and those that name it.

    Without ``cgroup`` all of them are stopped by signals.
    """

    def __init__(self, folder: str, cgroup: Cgroup | None) -> None:
        self._folder = folder
        self._cgroup = cgroup
        #: The child of this process that is not reaped here; None before there is one.
        self._launcher_pid: int | None = None
        #: Processes that were there at the last look, and at the one before.
        self._living: set[int] = set()
        self._looked_at: set[int] = set()
        #: Those whose environment names the run, with the start of each.
        self._named: dict[int, str] = {}
        #: What this object has stopped, parents first, with the start of each.
        self._stopped: dict[int, str] = {}
        #: All that the cgroup does not have, as it was at the last freeze, likewise.
        self._known_processes: dict[int, str] = {}
        self._guard = Guard(cgroup)
        #: When a process was last told to stop, or a freeze began.
        self._told_s = 0.0

    def join(self) -> None:
        """Have this process, which is to become the launcher, and its children in the cgroup.

        Where it may not be moved there, signals stop it.
        """
        if self._cgroup is not None:
            with contextlib.suppress(OSError):
                self._cgroup.add(os.getpid())

    def started(self, launcher_pid: int) -> None:
        """Have each freeze reap the ended children of this process, but not the launcher.

        Who has started the launcher asks for its exit code; the others are orphans of the run. A
        program that goes on in a child, which goes on in one of its own, leaves so many of them
        that to look at all takes longer than its last process lives.
        """
        self._launcher_pid = launcher_pid

    def freeze(self) -> str:
        """Freeze the run; return which of its processes do not stand still, or nothing."""
        self._told_s = time.monotonic()
        self._watch()  # the guard is there
        moving = self._freeze_cgroup()
        before: list[int] = []
        refused: set[int] = set()
        first_told_s = math.inf
        while True:
            has_reaped = self._reap()
            outside = self._outside()
            goes_on = self._stop(outside, refused)
            first_told_s = min(first_told_s, self._told_s)
            # Twice the same, and no orphan has ended: a child whose parent ends between two reads
            # of /proc is in neither's list
            if not goes_on and outside == before and not has_reaped:
                break
            before = outside
            now_s = time.monotonic()
            if goes_on and now_s - self._told_s > _STOPS_S:
                moving = moving or f"{_words(goes_on[0])} does not stop"
                break
            if now_s - first_told_s > _FREEZES_S:
                moving = moving or "its processes begin others faster than these are stopped"
                break
            if goes_on:
                time.sleep(_POLL_S)
        if refused and not moving:
            moving = f"{_words(min(refused))} belongs to another user"
        return moving

    def thaw(self) -> None:
        """Let the run go on."""
        if self._cgroup is not None:
            self._cgroup.thaw()
        # Children first: a parent may look whether they go on
        for pid, start in reversed(self._stopped.items()):
            if is_still(pid, start):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGCONT)
        if self._stopped:
            self._stopped = {}
            self._watch()

    def close(self) -> None:
        """Let the run go on, for good."""
        self.thaw()
        self._guard.close()

    def remove(self) -> None:
        """Remove the cgroup, and what is left in it, once the run has ended."""
        if self._cgroup is not None:
            self._cgroup.remove()

    def _watch(self) -> None:
        """Have the guard end what is known of the run, frozen or not, if this process dies."""
        self._guard.watch(self._known_processes | self._stopped)

    def _reap(self) -> bool:
        """Reap the orphans of the run that have ended; return whether there were any."""
        if self._launcher_pid is None:
            return False
        reaped = 0
        for pid in children(os.getpid()):
            if pid not in (self._launcher_pid, self._guard.pid):
                # The kernel reaps them where SIGCHLD is ignored
                with contextlib.suppress(ChildProcessError):
                    reaped += bool(os.waitpid(pid, os.WNOHANG)[0])
        return reaped > 0

    def _freeze_cgroup(self) -> str:
        """Freeze the cgroup; return which of its processes goes on, or nothing."""
        if self._cgroup is None:
            return ""
        try:
            if self._cgroup.freeze():
                return ""
        except OSError:
            self._leave_cgroup()  # somebody removed it: its processes were moved away
            return ""
        letters = {pid: s.letter for pid in self._cgroup.processes() if (s := state_of(pid))}
        if BLOCKED in letters.values():
            return ""
        going = [pid for pid, letter in letters.items() if letter == "R"]
        return f"{_words(min(going or letters))} does not stop" if letters else ""

    def _leave_cgroup(self) -> None:
        assert self._cgroup is not None
        self._cgroup.thaw()
        self._cgroup = None

    def _stop(self, pids: list[int], refused: set[int]) -> list[int]:
        """Stop those that were not yet; return which do not stand still.

        Adds to ``refused`` those that this user may not stop.
        """
        states = {pid: state for pid in pids if (state := state_of(pid)) is not None}
        self._known_processes = {pid: state.start for pid, state in states.items()}
        # One that has stopped itself is to stay so
        new = [
            pid
            for pid, state in states.items()
            if pid not in refused
            and self._stopped.get(pid) != state.start
            and state.letter not in ENDED | {STOPPED}
        ]
        if new:
            # Before they stop: nobody but this process lets them go on
            self._stopped |= {pid: states[pid].start for pid in new}
            self._watch()
        for pid in new:
            try:
                os.kill(pid, signal.SIGSTOP)
            except ProcessLookupError:
                continue
            except PermissionError:
                refused.add(pid)
                del self._stopped[pid]
        waited_s = time.monotonic() - self._told_s
        if new:
            self._told_s = time.monotonic()
        stands = _STANDS | ({BLOCKED} if waited_s > _WAITS_S else set())
        return [
            pid
            for pid, state in states.items()
            if pid not in refused and (pid in new or state.letter not in stands)
        ]

    def _outside(self) -> list[int]:
        """Return the processes of the run that the cgroup does not have, parents first."""
        inside = self._cgroup.processes() if self._cgroup is not None else set()
        # Before the tree: it looks at all of the host, and the tree changes within moments
        named = self._named_processes()
        tree = dict.fromkeys(descendants(os.getpid()))
        for pid in named - tree.keys():
            # Nodes of one kernel, as in namespaces, see the processes of each other
            if _nearest_name(pid) != CHANNEL_NAME and not has_cgroup(pid):
                tree.update(dict.fromkeys([pid, *descendants(pid)]))
        names = {pid: name_of(pid) for pid in tree}
        not_of_it = {os.getpid(), self._guard.pid} | inside
        not_of_it |= {pid for pid, name in names.items() if name in (PARENT_NAME, CHANNEL_NAME)}
        if CHANNEL_NAME in names.values():
            # A launcher's remote shell, and the ssh below it
            not_of_it |= {pid for pid in tree if _nearest_name(pid) == CHANNEL_NAME}
        return [pid for pid in tree if pid not in not_of_it]

    def _named_processes(self) -> set[int]:
        """Return the processes whose environment names the run.

        Each is looked at twice: the first time it may not have begun its program yet.
        """
        living = {int(name) for name in os.listdir("/proc") if name.isdecimal()}
        for pid in living - self._looked_at:
            if names_run(pid, [self._folder]) and (state := state_of(pid)) is not None:
                self._named[pid] = state.start
        self._looked_at, self._living = living & self._living, living
        # Another process may have the pid of one that has ended
        self._named = {pid: start for pid, start in self._named.items() if is_still(pid, start)}
        return set(self._named)


def _words(pid: int) -> str:
    return f"pid {pid} ({name_of(pid)})"


def _nearest_name(pid: int) -> str:
    """Return the name of this package's process that ``pid`` is below, nearest first, if any."""
    while pid > 1:
        if (name := name_of(pid)) in (PARENT_NAME, CHANNEL_NAME):
            return name
        pid = parent_of(pid)
    return ""
