"""What a rank writes: JSON lines, and a live counter that costs no system call.

A record looks like ``{"record": "span", "rank": 0, "first_step": 50, "last_step": 50,
"seconds": 0.031, "work": 2, "cpu_seconds": 0.030, "data_wait_seconds": null}``.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

#: Version of the records; the pytest side refuses another.
RECORDS_FORMAT: Final = 1
#: Iterations finished, and the wall-clock time of the last of them.
PROGRESS: Final = struct.Struct("<qd")


class RecordWriter:
    """Appends JSON lines to ``rank<N>.jsonl``; every line is on its way to the disk at once."""

    def __init__(self, folder: Path, rank: int) -> None:
        self.rank = rank
        descriptor = os.open(
            folder / f"rank{rank:05d}.jsonl", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600
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
