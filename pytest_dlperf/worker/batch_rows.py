"""Counts the rows of the batches that a rank trains on, by shapes: no device is waited for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from pytest_dlperf.worker.failure import WorkerFailure

#: A batch holds its arrays at most so deep.
_DEPTH: Final = 4
#: So many batches show where the rows are, or none does: each is walked while the step waits.
_TRIES: Final = 8


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
        self.is_said = False
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
        short, is_said = self._short, self.is_said
        self.says_each |= is_said
        self.forget()
        if short and not is_said:
            raise WorkerFailure(
                "batch-mismatch",
                f"{short}; the rate would count rows that were not trained. Leave smaller batches "
                "out (drop_last=True), or say in each step what it trains: job.work(len(batch))",
            )

    def forget(self) -> None:
        """Begin an iteration."""
        self.is_said = self.called = False
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


class _Shown(NamedTuple):
    """Where a whole batch shows its rows, the surest first."""

    arrays: list[_Spot]
    #: Sequences of as many samples.
    samples: list[_Spot]
    #: Sequences of as many arrays that are as long: samples, or parts of the batch.
    doubtful: list[_Spot]
    #: Whether all that is in it is as long as a batch.
    is_filled: bool


class BatchRows:
    """Counts the rows of the batches of a loader whose whole batches have ``whole`` rows.

    Where the rows are is learnt from the first whole batch: its arrays whose ``dimension`` is as
    long as the batch; else its sequences of as many samples. Arrays of a sample, such as three
    channels or two boxes of an image, are none of these. Arrays that are padded, packed or cut in
    another dimension count all the same.
    """

    def __init__(self, whole: int, dimension: int = 0) -> None:
        self.whole = whole
        self._dimension = dimension
        self._spots: list[_Spot] = []
        self._tries = 0

    def rows_of(self, batch: Any) -> int | None:
        """Return the rows of ``batch``, at most ``whole``; None where they are not known.

        They are not before a whole batch was seen, nor where the batch is packed into one row, nor
        in a batch whose arrays disagree, nor where none of the first batches was whole.
        """
        if not self._spots:
            if self._tries == _TRIES:
                return None
            self._tries += 1
            shown = self._shown(batch, ())
            self._spots = shown.arrays or shown.samples or shown.doubtful
        sizes = {_size(batch, spot, self._dimension) for spot in self._spots}
        # A dimension without one size, as of a compiler's trace, is -1
        fitting = {size for size in sizes if size is not None and 0 <= size <= self.whole}
        # An array may be left out of a batch, but no sequence of its samples is
        is_known = None not in sizes or self._spots[0].is_array
        return fitting.pop() if is_known and len(fitting) == 1 else None

    def _shown(self, value: Any, keys: tuple[Any, ...]) -> _Shown:
        if len(keys) > _DEPTH:
            return _Shown([], [], [], is_filled=False)
        if isinstance(value, Mapping):
            return self._shown_parts({key: value[key] for key in value}, keys)
        if dataclasses.is_dataclass(value):
            names = (field.name for field in dataclasses.fields(value))
            return self._shown_parts({name: getattr(value, name) for name in names}, keys)
        if not isinstance(value, list | tuple):
            size = _size(value, _Spot((), is_array=True), self._dimension)
            is_whole = _has_shape(value) and size == self.whole
            arrays = [_Spot(keys, is_array=True)] if is_whole else []
            return _Shown(arrays, [], [], is_filled=is_whole)
        inner = self._shown_parts(dict(enumerate(value)), keys)
        # A pair of arrays is inputs and labels, no batch of two; so are named parts
        is_parts = hasattr(value, "_fields") or (not keys and any(map(_has_shape, value)))
        if is_parts or len(value) != self.whole:
            return inner
        spot = _Spot(keys, is_array=False)
        if not inner.is_filled:
            return _Shown([], [spot], [], is_filled=True)
        return _Shown([], inner.samples, [spot, *inner.arrays, *inner.doubtful], is_filled=True)

    def _shown_parts(self, values: Mapping[Any, Any], keys: tuple[Any, ...]) -> _Shown:
        parts = [self._shown(value, (*keys, key)) for key, value in values.items()]
        return _Shown(
            arrays=[spot for part in parts for spot in part.arrays],
            samples=[spot for part in parts for spot in part.samples],
            doubtful=[spot for part in parts for spot in part.doubtful],
            is_filled=bool(parts) and all(part.is_filled for part in parts),
        )


def _has_shape(value: Any) -> bool:
    return hasattr(type(value), "shape")


def _size(batch: Any, spot: _Spot, dimension: int) -> int | None:
    value = batch
    try:
        for key in spot.keys:
            value = getattr(value, key) if dataclasses.is_dataclass(value) else value[key]
        return int(value.shape[dimension]) if spot.is_array else len(value)
    except (LookupError, AttributeError, TypeError, ValueError, RuntimeError):
        return None  # another batch is built otherwise, or its shape is not known
