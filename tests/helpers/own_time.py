"""How long a session took by itself: without what it waited for a CPU on a busy machine."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

_POLL_S = 0.02


class OwnTime:
    """The time of a session from now to its end, less that for which it waited for a CPU.

    A bound in seconds is the session's own then: a wait that it makes by itself counts, and other
    work of the machine does not. Where the kernel does not count such waits, it is the clock's.
    """

    def __init__(self, session: subprocess.Popen[Any]) -> None:
        self._session = session
        self._began_s = time.monotonic()
        self._waited_before_s = self._waited_s = _waited_s(session.pid) or 0.0

    def wait(self, *, timeout_s: float = 60) -> int:
        """Return the exit code of the session; raise TimeoutExpired where it does not end."""
        while (code := self._session.poll()) is None:
            waited_s = _waited_s(self._session.pid)
            self._waited_s = self._waited_s if waited_s is None else waited_s
            if self.elapsed_s > timeout_s:
                raise subprocess.TimeoutExpired(self._session.args, timeout_s)
            time.sleep(_POLL_S)
        return code

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    @property
    def own_s(self) -> float:
        """The time so far; right after ``wait`` that of the whole session."""
        return self.elapsed_s - (self._waited_s - self._waited_before_s)


def _waited_s(pid: int) -> float | None:
    """Return how long the first thread of a process has waited for a CPU; None where unknown.

    The second number of ``/proc/PID/schedstat``, in nanoseconds:
    https://docs.kernel.org/scheduler/sched-stats.html.
    """
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, IndexError):
        return None  # it has ended, or the kernel does not say
