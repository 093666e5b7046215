"""Writes the files of a rank: its records as lines of JSON, and its live progress counter.

A record looks like ``{"rank": 0, "record": "span", "first_step": 50, "last_step": 50,
"seconds": 0.031, "work": 2, "cpu_seconds": 0.030, "data_wait_seconds": null}``; ``core/wire.py``
has what each kind holds. ``MetricBook`` makes the record of the metrics that a program reports.
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import re
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from pytest_dlperf.core.wire import PROGRESS, rank_file
from pytest_dlperf.core.wire_records import MetricsRecord, MetricValue, SpanRecord, WrittenRecords

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


_NAME: Final = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)


class MetricBook:
    """The metrics that this rank reported, by name.

    A metric is the mean of its calls in the measured window; where it has none there, the mean
    of those before.
    """

    def __init__(self) -> None:
        self._declared: dict[str, tuple[str, str]] = {}
        self._before: dict[str, list[Any]] = {}
        self._now = self._before

    def add(self, name: str, value: Any, better: str, unit: str) -> None:
        """Keep a value; raise ``ValueError`` for a name or direction that cannot be meant.

        And where the name was used with another unit or direction before.
        """
        if not _NAME.fullmatch(name):
            raise ValueError(f"metric {name!r}: use lower-case letters, digits and _ only")
        if better not in {"lower", "higher"}:
            raise ValueError(f'metric {name}: better={better!r}; give "lower" or "higher"')
        before = self._declared.setdefault(name, (unit, better))
        if before != (unit, better):
            raise ValueError(
                f"metric {name}: unit {unit!r}, better {better!r}, and before it had unit "
                f"{before[0]!r}, better {before[1]!r}; give two metrics two names"
            )
        self._now.setdefault(name, []).append(kept_number(value))

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Report the seconds of the block as ``<name>_seconds``; the device is not waited for."""
        began_s = time.perf_counter()
        yield
        self.add(f"{name}_seconds", time.perf_counter() - began_s, "lower", "s")

    def start_window(self) -> None:
        """Begin the measured window."""
        self._now = {}

    def record(self) -> MetricsRecord:
        """Return the metrics until now; raise ``ValueError`` for a value that is not finite."""
        values: dict[str, MetricValue] = {}
        for name, (unit, better) in self._declared.items():
            numbers = [float(one) for one in self._now.get(name) or self._before[name]]
            mean = math.fsum(numbers) / len(numbers)
            if not math.isfinite(mean):
                raise ValueError(f"metric {name}: {mean} is not a finite number")
            values[name] = MetricValue(value=mean, calls=len(numbers), unit=unit, better=better)
        return MetricsRecord(values=values)


def kept_number(value: Any) -> Any:
    """Return a number; or a copy of a tensor of a GPU, which nobody waits for within the window.

    The copy has no graph, and is not the memory that the next step may write.
    """
    alone = value.detach() if hasattr(value, "detach") else value
    # Paddle's tensors know a place, those of PyTorch and TensorFlow a device
    where = str(getattr(alone, "place", None) or getattr(alone, "device", "cpu"))
    if "cpu" in where.lower():
        return float(alone)
    for name in ("clone", "copy"):  # the latter of JAX, whose arrays may be donated
        if hasattr(alone, name):
            return getattr(alone, name)()
    return alone
