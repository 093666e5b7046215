"""Cut the records of a block where one of them is counted by itself: words, or another bar."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from pytest_dlperf.measure.logs.records import Columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Flags = NDArray[np.bool_]
    Places = NDArray[np.intp]

#: Fields that say more than the speed of a step and its loss, wherever they are.
_ALONE: Final = (
    "whole_run",
    "whole_seconds",
    "skip_word",
    "skipped_in_all",
    "other_loss_lost",
)
#: And those that do on a line without a step.
_ALONE_IN_WORDS: Final = ("aside", "total", "not_finite", "skipped", "bar_steps")


class Prints:
    """The records that have a step, among others that have a loss alone."""

    def __init__(self, columns: Columns) -> None:
        self.places: Places = np.flatnonzero(columns["step"] >= 0)
        is_all = len(self.places) == columns.length
        self.columns = columns if is_all else columns.rows(self.places)


def pieces(columns: Columns) -> Iterator[tuple[int, int]]:
    """Yield where each piece begins and ends, in their order.

    A piece has one record, or steps and losses without other words; its bars have one total.
    """
    alone = np.flatnonzero(_are_alone(columns))
    cuts = np.unique(np.concatenate([[0, columns.length], alone, alone + 1, _new_totals(columns)]))
    yield from pairwise(cuts.astype(int).tolist())


def _are_alone(columns: Columns) -> Flags:
    are_words = columns["step"] < 0
    alone: Flags = columns["aside"] == 1
    for name in _ALONE:
        if name in columns:
            alone |= ~np.isnan(columns[name])
    for name in _ALONE_IN_WORDS:
        if name in columns:
            alone |= are_words & ~np.isnan(columns[name])
    return alone


def _new_totals(columns: Columns) -> Places:
    """Return the records whose total is not that of the one before."""
    if "total" not in columns:
        return np.empty(0, dtype=np.intp)
    totals = columns["total"]
    places = np.flatnonzero(~np.isnan(totals))
    changed: Places = places[1:][np.diff(totals[places]) != 0]
    return changed
