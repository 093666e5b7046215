"""Reads what the ranks of a run wrote: their records, live counters and conflicts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from pytest_dlperf.core.run import Span
from pytest_dlperf.core.wire import PROGRESS, rank_files, rank_of_file
from pytest_dlperf.core.wire_records import CanaryRates, RecordKind, RecordsByKind, SpanRecord
from pytest_dlperf.core.writable import texts_of_rank

if TYPE_CHECKING:
    from pytest_dlperf.core.wire import RankFile


@dataclass(frozen=True, kw_only=True, slots=True)
class RankRecords:
    """Everything that one rank wrote."""

    rank: int
    #: The record of each kind, without spans and canaries; the last one if there are several.
    by_kind: RecordsByKind
    spans: tuple[Span, ...]
    canaries: tuple[Mapping[str, float | None], ...]

    def wrote(self, kind: RecordKind) -> bool:
        """Return whether the rank wrote a record of ``kind``."""
        return kind in self.by_kind


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """The iterations that a rank has finished, -1 while it is being built; and since when."""

    rank: int
    iterations: int
    at_s: float


@dataclass(kw_only=True, slots=True)
class _Reading:
    by_kind: dict[str, Any] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    canaries: list[Mapping[str, float | None]] = field(default_factory=list)


def read_records(folder: Path) -> tuple[RankRecords, ...]:
    """Return the records of every rank that wrote any in ``folder``, by rank."""
    return tuple(_read_rank(path) for path in files_of_ranks(folder, "jsonl"))


def files_of_ranks(folder: Path, kind: RankFile) -> list[Path]:
    """Return the ranks' files of one kind, by rank; a program may write others there."""
    paths = sorted(folder.glob(rank_files(kind)))
    return [path for path in paths if path.stem.removeprefix("rank").isdecimal()]


def read_progress(folder: Path) -> tuple[Progress, ...]:
    """Return the progress of every rank, by rank."""
    found = []
    for path in files_of_ranks(folder, "progress"):
        data = path.read_bytes()
        if len(data) == PROGRESS.size:
            iterations, at_s = PROGRESS.unpack(data)
            found.append(Progress(rank=rank_of_file(path.name), iterations=iterations, at_s=at_s))
    return tuple(found)


def read_conflicts(folder: Path) -> dict[int, tuple[str, ...]]:
    """Return, by rank, the processes whose number another process was writing for already.

    As ``pid 12 on host``, without that other process.
    """
    found: dict[int, tuple[str, ...]] = {}
    for path in files_of_ranks(folder, "conflict"):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        found[rank_of_file(path.name)] = tuple(
            dict.fromkeys(process_of(json.loads(n)) for n in lines)
        )
    return found


def process_of(values: Mapping[str, object]) -> str:
    """Return the process that a record names."""
    return f"pid {values.get('pid', '?')} on {values.get('node', '?')}"


def _read_rank(path: Path) -> RankRecords:
    reading = _Reading()
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            values: Any = json.loads(line)
        except (ValueError, RecursionError):
            continue  # the last line of a rank that was killed while it wrote
        # A program may write into its own folder
        if isinstance(values, dict) and isinstance(values.get("record"), str):
            is_plain = len(line) < _LONG_LINE and _HALF not in line
            _take(reading, values if is_plain else texts_of_rank(values))
    return RankRecords(
        rank=rank_of_file(path.name),
        by_kind=cast("RecordsByKind", reading.by_kind),
        spans=tuple(reading.spans),
        canaries=tuple(reading.canaries),
    )


#: How JSON begins a surrogate, or NUL, that Python wrote.
_HALF: Final = "\\u"
#: Below it no text of a record is too long.
_LONG_LINE: Final = 4096


def _take(reading: _Reading, values: dict[str, Any]) -> None:
    kind = values.pop("record")
    if kind == "span":
        rank = values.pop("rank")
        reading.spans.append(Span(rank=rank, **cast("SpanRecord", values)))
    elif kind == "canary":
        rates = CanaryRates.__annotations__
        reading.canaries.append({name: values[name] for name in rates if name in values})
    else:
        reading.by_kind[kind] = values
