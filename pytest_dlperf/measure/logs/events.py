"""The numbers of lines, one line after the other, and back to columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_dlperf.measure.logs.declare import Event

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Places = NDArray[np.intp]
    Floats = NDArray[np.float64]
    #: Lines of a text, and their numbers by name.
    ByColumn = tuple[Places, dict[str, Floats]]


def events_of(by_column: Sequence[ByColumn], count: int) -> list[Event | None]:
    """Return the numbers of each of so many lines; None is a line that has none."""
    events: list[Event | None] = [None] * count
    for places, columns in by_column:
        names = [name for name in columns if name != "rank"]
        rows = np.array([columns[name] for name in names]).reshape(len(names), len(places))
        for place, numbers in zip(places.tolist(), rows.T.tolist(), strict=True):
            events[place] = dict(zip(names, numbers, strict=True))
    return events


def ranks_of(by_column: Sequence[ByColumn], count: int) -> Floats:
    """Return the rank of each of so many lines; NaN is a line that has none."""
    ranks = np.full(count, np.nan)
    for places, columns in by_column:
        if "rank" in columns:
            ranks[places] = columns["rank"]
    return ranks


def columns_of(events: Sequence[Event]) -> dict[str, Floats]:
    """Return the numbers by name, in the order of the lines; NaN is one that a line lacks."""
    names = [*dict.fromkeys(chain.from_iterable(events))]
    columns = {}
    has_all = len(events) * len(names) == sum(map(len, events))
    for name in names:
        numbers: list[Any]
        # The usual case, at half the time
        numbers = [*map(itemgetter(name), events)] if has_all else [e.get(name) for e in events]
        columns[name] = np.array(numbers, dtype=np.float64)
    return columns
