"""Ends processes that a run has left, whose supervisor is gone: their environment names the run.

Standard library and ``tree.py`` only: it is sent to far ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pytest_dlperf.launch.process.tree import UNKILLABLE_S

#: Marks the processes of a run with the run's folder, also after their parents are gone.
RUN_VARIABLE: Final = "DLPERF_RUN"
_POLL_S: Final = 0.05


def processes_of(folders: Sequence[str]) -> list[int]:
    """Return the pids of this user's processes whose run's folder is in one of ``folders``."""
    pids = [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if names_run(pid, folders)]


def names_run(pid: int, folders: Sequence[str]) -> bool:
    """Return whether a process is this user's, and its run's folder is in one of ``folders``."""
    name = f"{RUN_VARIABLE}=".encode()
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False  # it ended, or belongs to another user
    runs = [os.fsdecode(v[len(name) :]) for v in variables if v.startswith(name)]
    return any(run == folder or run.startswith(f"{folder}/") for run in runs for folder in folders)


def end_left_over(folders: Sequence[str], *, after_s: float = 0.0) -> list[int]:
    """Kill the processes of runs in ``folders`` that live ``after_s`` from now; return their pids.

    Returns when none is left, or when SIGKILL did not end them in time.
    """
    killed: set[int] = set()
    begin_s = time.monotonic()
    own = {os.getpid(), os.getppid()}
    while living := set(processes_of(folders)) - own:
        passed_s = time.monotonic() - begin_s
        if passed_s > after_s + UNKILLABLE_S:
            break
        if passed_s >= after_s:
            for pid in living:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            killed |= living
        time.sleep(_POLL_S)
    return sorted(killed)
