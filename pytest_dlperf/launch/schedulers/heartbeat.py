"""Heartbeat of a session for its jobs: a file whose contents change every two seconds."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Final

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
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(descriptor, f"{number:020d}\n".encode("ascii"), 0)
        finally:
            os.close(descriptor)

    def stop(self) -> None:
        """Write no more."""
        self._stopped.set()
        self._thread.join(timeout=BEAT_S)
