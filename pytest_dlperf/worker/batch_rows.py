"""Counts the rows of the batches that a rank trains on, by shapes: no device is waited for."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pytest_dlperf.worker.failure import WorkerFailure

#: A batch holds its arrays at most so deep.
_DEPTH: Final = 4


class StepRows(NamedTuple):
    """What went into one step: its batches, and the rows of all of them."""

    #: None where the rows of a batch are not known.
    rows: int | None
    #: Rows of a step whose batches are whole, and how many batches that has.
    whole_rows: int
    batches: int
    whole_batches: int

    @property
    def is_part(self) -> bool:
        """Whether the step is known to have less than a whole one."""
        fewer = self.rows is not None and self.rows < self.whole_rows
        return fewer or 0 < self.batches < self.whole_batches


class RowsOfIteration:
    """Whether what a rank trains on in an iteration has the rows that its work counts.

    A workload that says its work in the iteration may train on any number of rows.
    """

    def __init__(self) -> None:
        #: Whether the workload said its work since the last iteration.
        self.said = False
        #: Whether the model was called in this iteration.
        self.called = False
        #: Whether the workload says its work in its steps, and a whole batch was seen.
        self.says_each = self.saw_whole = False
        self._short = ""

    def expect(self, rows: int | None, whole: int, what: str) -> None:
        """Note that ``what`` has so many ``rows`` of ``whole``; None: they are not known."""
        self.saw_whole |= rows == whole
        if rows is not None and rows != whole and not self._short:
            self._short = f"{what} has {rows} rows, and a whole one {whole}"

    def end(self) -> None:
        """End an iteration; raise ``WorkerFailure`` where it counts rows that were not trained."""
        short, said = self._short, self.said
        self.says_each |= said
        self.forget()
        if short and not said:
            raise WorkerFailure(
                "batch-mismatch",
                f"{short}; the rate would count rows that were not trained. Leave smaller batches "
                "out (drop_last=True), or say in each step what it trains: job.work(len(batch))",
            )

    def forget(self) -> None:
        """Begin an iteration."""
        self.said = self.called = False
        self._short = ""


class _Spot(NamedTuple):
    """Where in a batch its rows show: the keys to a value, which is an array or a sequence."""

    keys: tuple[Any, ...]
    is_array: bool


class Shaped:
    """An array of which the shape alone is known."""

    __slots__ = ("shape",)

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = shape


class BatchRows:
    """Counts the rows of the batches of a loader whose whole batches have ``whole`` rows.

    Where the rows are is learnt from the first whole batch: its arrays whose ``dimension`` is as
    long as the batch; else its sequences of as many samples. Arrays that are padded, packed or
    cut in another dimension count all the same.
    """

    def __init__(self, whole: int, dimension: int = 0) -> None:
        self.whole = whole
        self._dimension = dimension
        self._spots: list[_Spot] = []

    def of(self, batch: Any) -> int | None:
        """Return the rows of ``batch``, at most ``whole``; None where they are not known.

        They are not before a whole batch was seen, nor where the batch is packed into one row, nor
        in a batch whose arrays disagree.
        """
        if not self._spots:
            self._spots = self._learnt(batch)
        sizes = {self._size(batch, spot) for spot in self._spots}
        fitting = {size for size in sizes if size is not None and size <= self.whole}
        return fitting.pop() if len(fitting) == 1 else None

    def _learnt(self, batch: Any) -> list[_Spot]:
        spots = [spot for spot in _spots(batch, ()) if self._size(batch, spot) == self.whole]
        return [spot for spot in spots if spot.is_array] or spots

    def _size(self, batch: Any, spot: _Spot) -> int | None:
        value = batch
        try:
            for key in spot.keys:
                value = getattr(value, key) if dataclasses.is_dataclass(value) else value[key]
            return int(value.shape[self._dimension]) if spot.is_array else len(value)
        except (LookupError, AttributeError, TypeError, ValueError, RuntimeError):
            return None  # another batch is built otherwise, or its shape is not known


def _spots(value: Any, keys: tuple[Any, ...]) -> Iterator[_Spot]:
    """Yield where an array or a sequence of samples is in ``value``."""
    if len(keys) > _DEPTH:
        return
    if isinstance(value, Mapping):
        for key in value:
            yield from _spots(value[key], (*keys, key))
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _spots(getattr(value, field.name), (*keys, field.name))
    elif isinstance(value, list | tuple):
        # A pair of arrays is inputs and labels, no batch of two
        if keys or not any(hasattr(entry, "shape") for entry in value):
            yield _Spot(keys, is_array=False)
        for index, entry in enumerate(value):
            yield from _spots(entry, (*keys, index))
    elif hasattr(type(value), "shape"):
        yield _Spot(keys, is_array=True)
