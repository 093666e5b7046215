"""Join the lines of a record: a line without a step belongs to the last step seen.

What a step's lines say is one record, whose number of a field is the first that is printed. A line
that has an epoch alone says it for the steps after it. A clock that runs on is taken apart: the
time of an iteration is what passed since the record before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pytest_dlperf.measure.logs.declare import FIGURES, Format
from pytest_dlperf.measure.logs.records import NAMES, Columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]
    Places = NDArray[np.intp]

#: Fields that may be on a line of their own.
_PARTS: Final = (
    "rate",
    "seconds",
    "mean_rate",
    "data_wait_seconds",
    "loss",
    "work",
    "elapsed_s",
    "at_s",
    "unread",
    *FIGURES,
)
_SPEEDS: Final = ("rate", "seconds", "elapsed_s")
#: Fields of lines of words, which are no part of a step.
_WORDS: Final = (
    "aside",
    "total",
    "whole_run",
    "whole_seconds",
    "not_finite",
    "skipped",
    "skipped_in_all",
    "skip_word",
    "other_loss_lost",
)


#: And those that a record has in any case, be they unknown.
_NEEDED: Final = ("step", "rank", "epoch", *_SPEEDS)


class Joined:
    """Joins the records of one log, block by block."""

    def __init__(self, fmt: Format) -> None:
        self._joins = fmt.several_lines
        self._has_clock = fmt.cumulative
        #: Steps to which the next lines may still belong, one of each rank.
        self._open: dict[str, Floats] | None = None
        self._epoch: dict[float, float] = {}
        #: Step and clock of the last record of each rank.
        self._clock: dict[float, tuple[float, float]] = {}

    def columns(self, columns: Columns) -> Columns:
        """Return the records of a block, and the step that the last block left open."""
        if not (self._joins or self._has_clock):
            return columns
        begun = () if self._open is None else self._open
        parts = {
            name: columns[name]
            for name in NAMES
            if name in _NEEDED or name in begun or name in columns
        }
        if self._joins:
            parts = self._with_parts(parts)
        if self._has_clock:
            self._take_apart(parts)
        return Columns(len(parts["step"]), parts)

    def end(self) -> Columns:
        """Return the steps that no more lines belong to."""
        parts, self._open = self._open, None
        if parts is None:
            return Columns(0)
        parts["step"] = np.where(_lacks_speed(parts), -1.0, parts["step"])
        if self._has_clock:
            self._take_apart(parts)
        return Columns(len(parts["step"]), parts)

    def _with_parts(self, parts: dict[str, Floats]) -> dict[str, Floats]:
        if self._open is not None:
            count = len(self._open["step"])
            parts = {
                name: np.concatenate([self._open.get(name, np.full(count, np.nan)), column])
                for name, column in parts.items()
            }
        size = len(parts["step"])
        is_step = parts["step"] >= 0
        has_words = _have_one(parts, _WORDS)
        has_part = _have_one(parts, _PARTS)
        names_epoch = ~is_step & ~has_part & ~has_words & ~np.isnan(parts["epoch"])
        is_part = ~is_step & has_part & ~has_words
        # The row of the step that a row belongs to; -1: to none.
        owner = np.full(size, -1, dtype=np.intp)
        is_open = np.zeros(size, dtype=bool)
        ranks = np.nan_to_num(parts["rank"], nan=-1.0)
        for rank in np.unique(ranks):
            rows = np.flatnonzero(ranks == rank)
            begins = is_step[rows] | (has_words & ~is_step)[rows]
            last = np.maximum.accumulate(np.where(begins, np.arange(len(rows)), -1))
            owner[rows] = np.where(last >= 0, rows[last], -1)
            if last[-1] >= 0 and is_step[rows[last[-1]]]:
                is_open[rows[last[-1]]] = True
            self._fill_epoch(parts["epoch"], rows, names_epoch[rows], float(rank))
        belongs = (is_step | is_part) & (owner >= 0)
        belongs[belongs] = is_step[owner[belongs]]
        for name in parts.keys() & set(_PARTS):
            column = parts[name]
            # The first number of a step counts, so it is written last.
            rows = np.flatnonzero(belongs & ~np.isnan(column))[::-1]
            joined = column.copy()
            joined[owner[rows]] = column[rows]
            parts[name] = joined
        # A step without a speed is no print of one: the next speed is of its iterations too.
        lacks_speed = is_step & ~is_open & _lacks_speed(parts)
        parts["step"] = np.where(lacks_speed, -1.0, parts["step"])
        kept = (is_step & ~is_open) | (has_words & ~is_step)
        self._open = None
        if is_open.any():
            self._open = {name: column[is_open] for name, column in parts.items()}
        return {name: column[kept] for name, column in parts.items()}

    def _fill_epoch(self, epoch: Floats, rows: Places, names_epoch: Flags, rank: float) -> None:
        """Give the steps that print no epoch the last that a line of its own has."""
        if not names_epoch.any() and rank not in self._epoch:
            return
        last = np.maximum.accumulate(np.where(names_epoch, np.arange(len(rows)), -1))
        known = np.where(last >= 0, epoch[rows[last]], self._epoch.get(rank, np.nan))
        epoch[rows] = np.where(np.isnan(epoch[rows]), known, epoch[rows])
        self._epoch[rank] = float(known[-1])

    def _take_apart(self, parts: dict[str, Floats]) -> None:
        """Make the seconds of an iteration of a clock that runs on."""
        seconds = parts["seconds"] = parts["seconds"].copy()
        has_clock = (parts["step"] >= 0) & ~np.isnan(parts["elapsed_s"])
        ranks = np.nan_to_num(parts["rank"], nan=-1.0)
        for rank in np.unique(ranks[has_clock]):
            rows = np.flatnonzero(has_clock & (ranks == rank))
            step, clock = parts["step"][rows], parts["elapsed_s"][rows]
            before = self._clock.get(float(rank), (np.nan, np.nan))
            steps = np.diff(step, prepend=before[0])
            passed = np.diff(clock, prepend=before[1])
            # A clock that was set back, and a step again, show nothing.
            grows = (steps > 0) & (passed > 0)
            each = np.divide(passed, steps, where=grows, out=np.full(len(rows), np.nan))
            seconds[rows] = np.where(np.isnan(seconds[rows]), each, seconds[rows])
            self._clock[float(rank)] = (float(step[-1]), float(clock[-1]))


def _lacks_speed(parts: dict[str, Floats]) -> Flags:
    lacks: Flags = np.all([np.isnan(parts[name]) for name in _SPEEDS], axis=0)
    return lacks


def _have_one(parts: dict[str, Floats], names: tuple[str, ...]) -> Flags:
    """Return which records have one of these fields."""
    have = np.zeros(len(parts["step"]), dtype=bool)
    for name in parts.keys() & set(names):
        have |= ~np.isnan(parts[name])
    return have
