"""Where Python spends the time of steps, sampled by py-spy where it is installed.

py-spy (https://github.com/benfred/py-spy) reads a process from outside, so that the training
runs none of its code. Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

from pytest_dlperf.core.wire_profile import HostStack

_PER_SECOND: Final = 100
_STARTS_S: Final = 15.0
_ENDS_S: Final = 15.0
#: Stacks that are kept, those with the most time.
_MOST: Final = 40
#: Frames of a stack that are kept, the innermost.
_DEEPEST: Final = 12
#: From <linux/prctl.h>: another process may trace this one, where only ancestors may (Yama); any.
_PR_SET_PTRACER: Final = 0x59616D61
_ANY: Final = -1


def allow_tracing(pid: int = _ANY) -> None:
    """Let the process ``pid`` read this one, and the program that it becomes."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, pid, 0, 0, 0)


def sampler(folder: Path, rank: int, pid: int | None = None) -> Sampler | None:
    """Return what samples the process ``pid``, or this one; None where py-spy is not installed."""
    beside = Path(sys.executable).with_name("py-spy")
    program = str(beside) if beside.exists() else shutil.which("py-spy")
    return Sampler(program, folder / f"stacks{rank:05d}.txt", pid) if program else None


class Sampler:
    """py-spy on the process ``pid``, or on this one, from ``start`` to ``stop``."""

    def __init__(self, program: str, file: Path, pid: int | None = None) -> None:
        self._pid = pid or os.getpid()
        self._program = program
        self._file = file
        self._process: subprocess.Popen[bytes] | None = None
        self._problem = ""

    def start(self) -> None:
        """Begin to sample; what goes wrong is raised by ``stop``."""
        command = [self._program, "record", f"--pid={self._pid}", f"--rate={_PER_SECOND}",
                   "--format=raw", "--idle", "--threads", f"--output={self._file}",
                   "--duration=unlimited"]  # fmt: skip
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            allow_tracing(self._process.pid)
            self._await_begin(self._process)
        except OSError as error:
            self._problem = f"py-spy: {error}"

    def _await_begin(self, process: subprocess.Popen[bytes]) -> None:
        """Return when py-spy says that it samples, or has ended."""
        assert process.stdout is not None
        end_s = time.monotonic() + _STARTS_S
        output = b""
        while b"Sampling process" not in output:
            ready, _, _ = select.select([process.stdout], [], [], max(0, end_s - time.monotonic()))
            chunk = os.read(process.stdout.fileno(), 4096) if ready else b""
            if not chunk:
                sentence = output.decode(errors="replace").strip().partition("\n")[0]
                self._problem = f"py-spy did not begin ({sentence or 'it said nothing'})"
                return
            output += chunk

    def end(self) -> None:
        """End py-spy, and drop what it sampled."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()

    def stop(self, steps: float) -> list[HostStack]:
        """Return the main thread's stacks, with their seconds a step; raise ``OSError``."""
        process = self._process
        if process is not None:
            process.send_signal(signal.SIGINT)  # with which it writes its file
            try:
                process.wait(_ENDS_S)
            except subprocess.TimeoutExpired:
                self._problem = self._problem or "py-spy did not end"
            finally:
                self.end()
        if self._problem:
            raise OSError(self._problem)
        text = self._file.read_text("utf-8", errors="replace")
        self._file.unlink()
        return stacks_of(text, steps)


def stacks_of(text: str, steps: float) -> list[HostStack]:
    """Return the stacks of the main thread in ``text``, as ``py-spy record -f raw`` writes it.

    Each line is the frames of a stack, the outermost first, and how often it was sampled.
    Raises ``ValueError`` for anything else.
    """
    counts: Counter[str] = Counter()
    for line in text.splitlines():
        words, _, count = line.rpartition(" ")
        thread, *frames = words.split(";")
        if "MainThread" not in thread and thread.startswith("thread ("):
            continue
        counts[";".join(_short(frame) for frame in frames[-_DEEPEST:])] += int(count)
    return [
        HostStack(frames=frames, seconds=count / _PER_SECOND / steps)
        for frames, count in counts.most_common(_MOST)
    ]


def _short(frame: str) -> str:
    """Return a frame with the last two parts of its file's path: ``step (folder/file.py:3)``."""
    function, bracket, place = frame.partition(" (")
    return f"{function}{bracket}{'/'.join(place.split('/')[-2:])}"
