"""Columns of the numbers of lines whose meaning is in lines before them, in the log's order."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from pytest_dlperf.measure.logs.declare import Event, LogRecord, record_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Places = NDArray[np.intp]
    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]
    #: Lines of a text, and their numbers by name.
    ByColumn = tuple[Places, Mapping[str, Floats]]


class Events(dict[str, "Floats"]):
    """The numbers of lines that follow each other, by name; NaN is one that a line lacks."""

    def __init__(self, length: int, columns: Mapping[str, Floats]) -> None:
        super().__init__(columns)
        self._length = length

    def __missing__(self, name: str) -> Floats:
        """Return the numbers of a name that no line has."""
        return np.full(self._length, np.nan)


class Latest:
    """What a line says for those after it, kept from one block to the next."""

    def __init__(self) -> None:
        self._number = math.nan

    def number_at(self, numbers: Floats, says: Flags | None = None) -> Floats:
        """Return at each line the number of the last one that says it, be it that line itself.

        NaN before the first. Lines that have a number say it, or those that ``says`` names: one
        of them without a number says that there is none any more.
        """
        says = ~np.isnan(numbers) if says is None else says
        places = np.maximum.accumulate(np.where(says, np.arange(len(says)), -1))
        latest = np.where(places >= 0, numbers[places], self._number)
        self._number = float(latest[-1])
        return latest

    def number_before(self, numbers: Floats, says: Flags | None = None) -> Floats:
        """Return the same of the lines before each."""
        first = self._number
        return np.concatenate([[first], self.number_at(numbers, says)[:-1]])


def events_of(lines: Sequence[Event]) -> Events:
    """Return the numbers of lines that are read one by one."""
    names = dict.fromkeys(chain.from_iterable(lines))
    columns = {
        # None becomes NaN
        name: np.array([line.get(name) for line in lines], dtype=np.float64)
        for name in names
    }
    return Events(len(lines), columns)


def joined(parts: Sequence[ByColumn]) -> tuple[Places, Events]:
    """Return the lines of all parts in their order, and their numbers."""
    places = np.concatenate([places for places, _ in parts])
    order = np.argsort(places, kind="stable")
    events = [Events(len(places), columns) for places, columns in parts]
    names = dict.fromkeys(chain.from_iterable(events))
    columns = {name: np.concatenate([part[name] for part in events])[order] for name in names}
    return places[order], Events(len(places), columns)


def records_of(fields: Mapping[str, Floats], rows: Places) -> Iterator[LogRecord]:
    """Yield the records of some rows; a field of a record is NaN where it has none."""
    columns = [fields[name][rows].tolist() for name in fields]
    for values in zip(*columns, strict=True):
        yield record_of(dict(zip(fields, values, strict=True)))
