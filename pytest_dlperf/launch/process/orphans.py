"""Ends what a killed supervisor leaves: its descendants become children of this process.

One that dropped its environment, and made a session of its own, has nothing else that names it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from pytest_dlperf.launch.process.left_over import RUN_VARIABLE
from pytest_dlperf.launch.process.tree import children, descendants

_PR_SET_CHILD_SUBREAPER: Final = 36  # prctl(2), Linux 3.4
_PR_GET_CHILD_SUBREAPER: Final = 37
#: After SIGKILL.
_ENDS_S: Final = 5.0


class Adoption:
    """Has this process adopt the orphans of a launch, while it runs."""

    def __init__(self) -> None:
        self._adopted_before = _is_subreaper()
        _set_subreaper(is_on=True)
        self._children = set(children(os.getpid()))

    def look(self, supervisor: subprocess.Popen[bytes]) -> None:
        """Note this process's children, while the supervisor lives: none of them is an orphan."""
        own_children = set(children(os.getpid()))
        if supervisor.poll() is None:
            self._children = own_children

    def end_orphans(self) -> None:
        """Kill the orphans, and what they have started."""
        end_s = time.monotonic() + _ENDS_S
        while (orphans := self._orphans()) and time.monotonic() < end_s:
            for orphan in orphans:
                for pid in (*descendants(orphan), orphan):
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(orphan, os.WNOHANG)
            time.sleep(0.02)

    def close(self) -> None:
        """Adopt no more, unless this process did before."""
        _set_subreaper(is_on=self._adopted_before)

    def _orphans(self) -> list[int]:
        """Return the new children that no thread of this process has started.

        Those are of its session; and a launch beside this one is known by its variable.
        """
        return [pid for pid in set(children(os.getpid())) - self._children if _is_orphan(pid)]


def _is_orphan(pid: int) -> bool:
    try:
        if os.getsid(pid) == os.getsid(0):
            return False
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False  # it has ended
    return not any(one.startswith(os.fsencode(f"{RUN_VARIABLE}=")) for one in variables)


def _is_subreaper() -> bool:
    found = ctypes.c_int(0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(found), 0, 0, 0)
    return bool(found.value)


def _set_subreaper(*, is_on: bool) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(is_on), 0, 0, 0)
