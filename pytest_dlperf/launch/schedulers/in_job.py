"""First process of a job: run a command, and end it when the submitting session is gone.

This file is copied into the job's folder, so it imports the standard library only. The session
changes its heartbeat file every few seconds. This process compares the contents of that file, and
uses its own monotonic clock, so that the clocks of two machines are never compared.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_POLL_S = 0.5
#: Seconds between a request to end and the end by force; below Slurm's own default of 30.
_GRACE_S = 10.0
#: Exit codes of pytest after which the results file says the rest: passed, failed.
_WITH_RESULTS = (0, 1)
#: Exit code if the session was never seen, or is gone.
LOST = 75


class Beats:
    """Reads the session's heartbeat file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last = self._read()
        self._since_s = time.monotonic()

    def _read(self) -> bytes:
        try:
            # Opened again each time: a network file system then asks its server
            return self._path.read_bytes()
        except OSError:
            return b""

    def silent_s(self) -> float:
        """Return the seconds since the file was last seen to change."""
        found = self._read()
        if found and found != self._last:
            self._last, self._since_s = found, time.monotonic()
        return time.monotonic() - self._since_s

    def await_one(self, limit_s: float) -> bool:
        """Return whether the file changed before ``limit_s``: a dead session's job ends here."""
        begin_s = self._since_s
        while self._since_s == begin_s:
            if self.silent_s() > limit_s:
                return False
            time.sleep(_POLL_S / 5)
        return True


def main(argv: Sequence[str]) -> int:
    """Run the command; return 0 if it wrote its results, else its exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--heartbeat", type=Path, required=True)
    parser.add_argument("--limit-s", type=float, required=True)
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args(argv)
    beats = Beats(arguments.heartbeat)
    if not beats.await_one(arguments.limit_s):
        _say(
            f"{arguments.heartbeat} does not change: the session that submitted this job is gone, "
            "or this node does not see its files; nothing was started"
        )
        return LOST
    process = _started(arguments.command)
    while True:
        try:
            code = process.wait(timeout=_POLL_S)
        except subprocess.TimeoutExpired:
            if beats.silent_s() > arguments.limit_s:
                _say(f"{arguments.heartbeat} no longer changes: the session is gone, this ends")
                _end(process)
                return LOST
        else:
            return 0 if code in _WITH_RESULTS else code % 256


def _started(command: Sequence[str]) -> subprocess.Popen[Any]:
    """Start the command; a signal from before it has started to now ends it."""
    started: list[subprocess.Popen[Any]] = []
    early: list[int] = []

    def leave(number: int, _frame: object) -> None:
        if not started:
            early.append(number)
            return
        _end(started[0])
        raise SystemExit(128 + signal.SIGTERM)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    started.append(subprocess.Popen(command))
    if early:
        leave(early[0], None)
    return started[0]


def _end(process: subprocess.Popen[Any]) -> None:
    process.terminate()
    deadline_s = time.monotonic() + _GRACE_S
    while process.poll() is None and time.monotonic() < deadline_s:
        time.sleep(_POLL_S / 5)
    process.kill()
    process.wait()


def _say(text: str) -> None:
    sys.stderr.write(f"dlperf: {text}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
