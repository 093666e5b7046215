"""What a rank writes: JSON lines, and a live counter that costs no system call.

A record looks like ``{"record": "span", "rank": 0, "first_step": 50, "last_step": 50,
"seconds": 0.031, "work": 2, "cpu_seconds": 0.030, "data_wait_seconds": null}``.
"""

from __future__ import annotations

import json
import mmap
import os
import socket
import struct
import time
from pathlib import Path
from typing import Any, Final

#: Version of the records; the pytest side refuses another.
RECORDS_FORMAT: Final = 1
#: Iterations finished, and the wall-clock time of the last of them.
PROGRESS: Final = struct.Struct("<qd")


class RecordWriter:
    """Appends JSON lines to ``rank<N>.jsonl``; every line is on its way to the disk at once.

    ``exclusive``: raises ``FileExistsError`` if another process has the rank's file.
    """

    def __init__(self, folder: Path, rank: int, *, exclusive: bool = False) -> None:
        self.rank = rank
        how = os.O_EXCL if exclusive else os.O_TRUNC
        descriptor = os.open(
            folder / f"rank{rank:05d}.jsonl", os.O_CREAT | os.O_WRONLY | how, 0o600
        )
        self._file = os.fdopen(descriptor, "w", encoding="utf-8")

    def write(self, record: str, **values: Any) -> None:
        """Write one record, and flush."""
        self.write_many([{"record": record, **values}])

    def close(self) -> None:
        """Write no more."""
        self._file.close()

    def write_many(self, records: list[dict[str, Any]]) -> None:
        """Write several records, then flush once."""
        for values in records:
            self._file.write(json.dumps({"rank": self.rank, **values}) + "\n")
        self._file.flush()


def write_conflict(folder: Path, rank: int) -> None:
    """Record that this process has the number of a rank whose file is another process's.

    In a file beside it: a line amid those of the other process could tear them.
    """
    line = json.dumps({"rank": rank, "pid": os.getpid(), "node": socket.gethostname()}) + "\n"
    descriptor = os.open(
        folder / f"rank{rank:05d}.conflict", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600
    )
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


class ProgressCounter:
    """The iterations finished by this rank, in a small shared file that others may map.

    An update is a store into memory: it is seen by the pytest side even if this process is
    killed, and adds nothing measurable to a step.
    """

    def __init__(self, folder: Path, rank: int) -> None:
        path = folder / f"rank{rank:05d}.progress"
        path.write_bytes(PROGRESS.pack(-1, time.time()))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), PROGRESS.size)

    def update(self, iterations: int) -> None:
        """Say that ``iterations`` are finished; -1 while the training is being built."""
        PROGRESS.pack_into(self._map, 0, iterations, time.time())
