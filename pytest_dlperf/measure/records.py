"""Reads the ranks' records: JSON lines, and the live counters."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.core.run import Span

#: The version of the records that this reads: ``worker/records.py`` writes it.
RECORDS_FORMAT: Final = 1
_PROGRESS: Final = struct.Struct("<qd")


@dataclass(frozen=True, kw_only=True, slots=True)
class RankRecords:
    """Everything that one rank wrote."""

    rank: int
    #: The record of each kind, without spans and canaries; the last one if there are several.
    by_kind: Mapping[str, Mapping[str, Any]]
    spans: tuple[Span, ...]
    canaries: tuple[Mapping[str, float | None], ...]
    #: Lines that are no JSON: the last one of a rank that was killed while it wrote.
    broken_lines: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far a rank is: iterations finished, -1 while it is being built; and when it said so."""

    rank: int
    iterations: int
    at_s: float


@dataclass(kw_only=True, slots=True)
class _Reading:
    by_kind: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    canaries: list[Mapping[str, float | None]] = field(default_factory=list)
    broken: int = 0


def read_records(folder: Path) -> tuple[RankRecords, ...]:
    """Return the records of every rank that wrote any in ``folder``, by rank."""
    return tuple(_read_rank(path) for path in sorted(folder.glob("rank*.jsonl")))


def read_progress(folder: Path) -> tuple[Progress, ...]:
    """Return how far every rank is, by rank."""
    found = []
    for path in sorted(folder.glob("rank*.progress")):
        data = path.read_bytes()
        if len(data) == _PROGRESS.size:
            iterations, at_s = _PROGRESS.unpack(data)
            found.append(Progress(rank=int(path.stem[4:]), iterations=iterations, at_s=at_s))
    return tuple(found)


def read_conflicts(folder: Path) -> dict[int, tuple[str, ...]]:
    """Return the processes that had the number of another process's rank, by rank.

    As ``pid 12 on host``; that other process is not among them.
    """
    found: dict[int, tuple[str, ...]] = {}
    for path in sorted(folder.glob("rank*.conflict")):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        found[int(path.stem[4:])] = tuple(dict.fromkeys(process_of(json.loads(n)) for n in lines))
    return found


def process_of(values: Mapping[str, Any]) -> str:
    """Return the process that a record names."""
    return f"pid {values.get('pid', '?')} on {values.get('node', '?')}"


def _read_rank(path: Path) -> RankRecords:
    reading = _Reading()
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            values = json.loads(line)
        except ValueError:
            reading.broken += 1
            continue
        _take(reading, values)
    return RankRecords(
        rank=int(path.stem[4:]),
        by_kind=reading.by_kind,
        spans=tuple(reading.spans),
        canaries=tuple(reading.canaries),
        broken_lines=reading.broken,
    )


def _take(reading: _Reading, values: dict[str, Any]) -> None:
    kind = values.pop("record")
    if kind == "span":
        reading.spans.append(Span(**values))
    elif kind == "canary":
        facts = {"rank", "when", "time"}
        reading.canaries.append({k: v for k, v in values.items() if k not in facts})
    else:
        reading.by_kind[kind] = values
