"""Living processes of runs, by their environment."""

from __future__ import annotations

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
