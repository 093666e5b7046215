"""The sbatch command and the script of one Slurm job, and the heartbeat that keeps it alive."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_dlperf.core.layout import Layout

#: Seconds between two beats.
BEAT_S: Final = 2.0
#: Seconds without a beat after which a job ends itself.
LOST_S: Final = 60.0


class Heartbeat:
    """Writes the file from a thread until ``stop``, or until the process ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stopped = threading.Event()
        self._write(0)
        self._thread = threading.Thread(target=self._beat, name="dlperf-heartbeat", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        number = 0
        while not self._stopped.wait(BEAT_S):
            number += 1
            with contextlib.suppress(OSError):  # the disk is full, or away: the next one counts
                self._write(number)

    def _write(self, number: int) -> None:
        # In place and always of one length: that needs no space of a disk that is full
        descriptor = os.open(
            self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            os.pwrite(descriptor, f"{number:020d}\n".encode("ascii"), 0)
        finally:
            os.close(descriptor)

    def stop(self) -> None:
        """Write no more."""
        self._stopped.set()
        self._thread.join(timeout=BEAT_S)


#: Exit code of a job whose node lacks a folder or a program.
MISPLACED: Final = 78


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRequest:
    """One job: what it runs, where, and what it needs."""

    #: What it is for: a case id, or ``probe``.
    name: str
    #: None for one whole node with all its devices.
    layout: Layout | None
    #: The command; its first word is the interpreter.
    command: tuple[str, ...]
    #: The job's own folder, on a file system that the nodes share.
    folder: Path
    #: Where the command starts.
    cwd: Path
    #: Folders that the node must see, in addition to the job's own.
    needs: tuple[Path, ...]
    #: The session's file that changes while it lives.
    heartbeat: Path
    #: Limit of the job, in seconds.
    time_s: float
    #: Whether the job has its nodes alone.
    exclusive: bool
    #: Names of the environment variables that the job gets.
    exported: tuple[str, ...]
    #: Further options of sbatch, from the user; they win over those of this module.
    sbatch_options: tuple[str, ...] = ()

    @property
    def log(self) -> Path:
        """The output of the job."""
        return self.folder / "job.log"

    @property
    def script(self) -> Path:
        """The script that sbatch is given."""
        return self.folder / "job.sh"

    @property
    def guard(self) -> Path:
        """The copy of ``in_job.py`` that is the job's first process."""
        return self.folder / "in_job.py"


def sbatch_command(request: JobRequest) -> tuple[str, ...]:
    """Return the command that submits ``request``; it holds no variable's value."""
    return (
        "sbatch",
        "--parsable",
        f"--job-name=dlperf-{request.name}",
        *_size(request.layout),
        # All of the node, its memory too: a case is measured alone
        *(("--exclusive", "--mem=0") if request.exclusive else ()),
        f"--time={max(1, math.ceil(request.time_s / 60))}",
        # A job that Slurm starts again would measure on another machine unnoticed
        "--no-requeue",
        f"--chdir={request.cwd}",
        # sbatch reads a pattern here
        f"--output={str(request.log).replace('%', '%%')}",
        "--open-mode=truncate",
        f"--export={','.join(request.exported) or 'NONE'}",
        *request.sbatch_options,
        str(request.script),
    )


def _size(layout: Layout | None) -> tuple[str, ...]:
    if layout is None:
        return ("--nodes=1", "--ntasks-per-node=1")
    of_device = "--gpus-per-node" if layout.device == "gpu" else "--cpus-per-task"
    return (
        f"--nodes={layout.nodes}",
        "--ntasks-per-node=1",
        f"{of_device}={layout.devices_per_node}",
    )


def script_text(request: JobRequest) -> str:
    """Return the script of ``request``; every value from outside is quoted."""
    folders = " ".join(shlex.quote(str(path)) for path in (*request.needs, request.folder))
    python = shlex.quote(request.command[0])
    command = shlex.join([
        request.command[0], "-I", str(request.guard), f"--heartbeat={request.heartbeat}",
        f"--limit-s={LOST_S:g}", "--", *request.command,
    ])  # fmt: skip
    return f"""#!/bin/bash
# {" ".join(request.name.split())}: submitted by pytest-dlperf, ends with its session.
umask 077
# What srun starts inside of the job gets what the job has.
export SLURM_EXPORT_ENV=ALL
for folder in {folders}; do
    if [ ! -d "$folder" ]; then
        echo "dlperf: $(hostname) does not see $folder; jobs need it on a shared file system" >&2
        exit {MISPLACED}
    fi
done
if ! command -v {python} >/dev/null; then
    echo "dlperf: $(hostname) has no "{python}"; name its interpreter with --dlperf-python" >&2
    exit {MISPLACED}
fi
exec {command}
"""
