"""Ends a supervisor that does not go on: SIGSTOP, or the freezer of its cgroup, has stopped it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

from pytest_dlperf.launch.process.tree import descendants

#: A supervisor wakes up twenty times a second. The CI that ends pytest leaves 10 s in all.
SILENT_S: Final = 3.0
#: Between two looks, at most: longer, and the process that looks was stopped itself.
_LOOK_S: Final = 0.5


class Pulse:
    """How long a process has not gone on; it is never in doubt where there is no ``/proc``."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._counts: list[str] = []
        self._looked_s = time.monotonic()
        self._silent_s = 0.0

    def silent_s(self) -> float:
        """Return for how many seconds it was not scheduled, as calls have seen it."""
        counts, now_s = self._look(), time.monotonic()
        # This process may have been stopped as well
        passed_s = min(now_s - self._looked_s, _LOOK_S)
        self._silent_s = self._silent_s + passed_s if counts and counts == self._counts else 0.0
        self._counts, self._looked_s = counts, now_s
        return self._silent_s

    def _look(self) -> list[str]:
        """Return the counts of its context switches, and its CPU time."""
        folder = Path(f"/proc/{self._pid}")
        try:
            status = (folder / "status").read_text("utf-8", errors="replace").splitlines()
            times = (folder / "stat").read_text("utf-8", errors="replace").rpartition(")")[2]
        except OSError:
            return []
        return [*(line for line in status if "ctxt_switches" in line), *times.split()[11:13]]


def end_tree(supervisor: subprocess.Popen[bytes]) -> list[int]:
    """Kill a supervisor that does not go on, and what it has started; return those processes.

    Those of a cgroup that is frozen may stay.
    """
    ended: set[int] = set()
    end_s = time.monotonic() + SILENT_S
    while supervisor.poll() is None:
        living = [pid for pid in descendants(supervisor.pid) if not _is_zombie(pid)]
        ended |= set(living)
        if not living or time.monotonic() > end_s:
            # Last: its descendants would be nobody's
            supervisor.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                supervisor.wait(timeout=SILENT_S)
            break
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in living:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        time.sleep(0.02)
    return sorted(ended)


def _is_zombie(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return True  # it has ended
    return text.rpartition(")")[2].split()[0] == "Z"
