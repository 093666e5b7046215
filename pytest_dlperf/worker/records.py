"""Writes the files of a rank: its records as lines of JSON, and its live progress counter.

A record looks like ``{"rank": 0, "record": "span", "first_step": 50, "last_step": 50,
"seconds": 0.031, "work": 2, "cpu_seconds": 0.030, "data_wait_seconds": null}``; ``core/wire.py``
has what each kind holds.
"""

from __future__ import annotations

import json
import mmap
import os
import socket
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pytest_dlperf.core.wire import PROGRESS, rank_file
from pytest_dlperf.core.wire_records import SpanRecord, WrittenRecords

if TYPE_CHECKING:
    # Not in the standard library of Python 3.10.
    from typing_extensions import Unpack


class RecordWriter:
    """Appends records to a rank's file; every line is on its way to the disk at once.

    ``exclusive``: raises ``FileExistsError`` if another process has the rank's file.
    """

    def __init__(self, folder: Path, rank: int, *, exclusive: bool = False) -> None:
        self.rank = rank
        how = os.O_EXCL if exclusive else os.O_TRUNC
        path = folder / rank_file(rank, "jsonl")
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | how, 0o600)
        self._file = os.fdopen(descriptor, "w", encoding="utf-8")

    def write(self, **records: Unpack[WrittenRecords]) -> None:
        """Write a record under the name of its kind, and flush."""
        self._append(cast("Mapping[str, Mapping[str, Any]]", records).items())

    def write_spans(self, spans: Iterable[SpanRecord]) -> None:
        """Write all spans, then flush once."""
        self._append(("span", span) for span in spans)

    def close(self) -> None:
        """Write no more."""
        self._file.close()

    def _append(self, records: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        for kind, values in records:
            self._file.write(json.dumps({"rank": self.rank, "record": kind, **values}) + "\n")
        self._file.flush()


def write_conflict(folder: Path, rank: int) -> None:
    """Record that this process has the number of a rank whose file another process writes.

    In a separate file: a line among those of the other process could tear them.
    """
    line = json.dumps({"rank": rank, "pid": os.getpid(), "node": socket.gethostname()}) + "\n"
    path = folder / rank_file(rank, "conflict")
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


class ProgressCounter:
    """The iterations finished by this rank, in a small file that other processes may map.

    An update is a store into memory: the pytest side sees it even if this process is killed,
    and it adds nothing measurable to a step.
    """

    def __init__(self, folder: Path, rank: int) -> None:
        path = folder / rank_file(rank, "progress")
        path.write_bytes(PROGRESS.pack(-1, time.time()))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), PROGRESS.size)

    def update(self, iterations: int) -> None:
        """Say that ``iterations`` are finished; -1 while the training is being built."""
        PROGRESS.pack_into(self._map, 0, iterations, time.time())
