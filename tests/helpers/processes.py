"""Processes of tests: those of runs that live, by their environment; signals that they heed."""

from __future__ import annotations

import signal
from pathlib import Path


def of_runs_in(folder: Path) -> list[str]:
    """Return the command lines of living processes that belong to runs of a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if f"DLPERF_RUN={folder}".encode() in environment:
            found.append(command.replace(b"\0", b" ").decode())
    return found


def heed_interrupts() -> None:
    """Heed Ctrl-C and SIGHUP, as ``preexec_fn``.

    A shell's background job ignores the first, and ``nohup`` the second, and both hand that on.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
