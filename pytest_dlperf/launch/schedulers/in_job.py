"""The first process of a job: runs a command while the session that submitted it lives.

A file of its own, copied into the job's folder; it needs the standard library only. The session
changes a file every few seconds. This process looks at what the file holds, and at its own
monotonic clock alone, so that clocks of two machines are never compared.
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
_TOLD = (0, 1)
#: Exit code where the session was never seen, or is gone.
LOST = 75


class Beats:
    """What was seen of the session's file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last = self._read()
        self._since_s = time.monotonic()

    def _read(self) -> bytes:
        try:
            # Opened anew each time: a network file system then asks its server
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
    """Run the command; return 0 if it told its results, else its exit code."""
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
    process = subprocess.Popen(arguments.command)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: _leave(process))
    while True:
        try:
            code = process.wait(timeout=_POLL_S)
        except subprocess.TimeoutExpired:
            if beats.silent_s() > arguments.limit_s:
                _say(f"{arguments.heartbeat} no longer changes: the session is gone, this ends")
                _end(process)
                return LOST
        else:
            return 0 if code in _TOLD else code % 256


def _leave(process: subprocess.Popen[Any]) -> None:
    _end(process)
    raise SystemExit(128 + signal.SIGTERM)


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
