"""The records of a block, as columns where its lines have shapes, else one by one."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from pytest_dlperf.measure.logs.clean import LINE_BYTES
from pytest_dlperf.measure.logs.declare import Reading
from pytest_dlperf.measure.logs.shapes import (
    DIGITS_TO_0,
    FIELDS,
    MOST_SHAPES,
    Shape,
    read,
    shape_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pytest_dlperf.measure.logs.declare import Format
    from pytest_dlperf.measure.logs.shapes import Floats

    Places = NDArray[np.intp]

#: Bytes that are looked at to tell how the rest will be.
_SAMPLE: Final = 1 << 14
#: From this share of lines on, those of one shape are looked for in runs.
_MOSTLY: Final = 0.75
_WHOLE = frozenset({"step", "epoch", "start", "total", "epochs", "epoch_steps", "aside"})


class Columns:
    """Readings by field, in the order of the log; NaN is what a line does not say."""

    def __init__(self, columns: dict[str, Floats], length: int) -> None:
        self.length = length
        self._columns = columns

    def __getitem__(self, name: str) -> Floats:
        """Return a field of all readings."""
        column = self._columns.get(name)
        return np.full(self.length, np.nan) if column is None else column

    def __contains__(self, name: str) -> bool:
        """Return whether any reading may have the field."""
        return name in self._columns

    def reading(self, index: int) -> Reading:
        """Return one of them."""
        values: dict[str, float | int | None] = {}
        for name, column in self._columns.items():
            value = float(column[index])
            if np.isnan(value):
                continue
            values[name] = int(value) if name in _WHOLE else value
        return Reading(**values)  # type: ignore[arg-type]


class Reader:
    """Reads the records of one log; what it learnt of shapes it keeps."""

    def __init__(self, form: Format) -> None:
        self._form = form
        self._shapes: dict[bytes, Shape | None] = {}

    def columns(self, text: bytes) -> Columns | None:
        """Return the records of plain text, whole lines; None where it is read line by line."""
        shapes = text.translate(DIGITS_TO_0)
        groups = _by_run(shapes) if _repeats(shapes) else _by_line(shapes)
        if len(groups) > MOST_SHAPES or len(self._shapes) > 4 * MOST_SHAPES:
            return None
        data = np.frombuffer(text, dtype=np.uint8)
        parts: list[tuple[Places, dict[str, Floats]]] = []
        for shape, (lines, starts) in groups.items():
            size = len(shape)
            if size > LINE_BYTES:
                return None
            known = self._shape(shape, text[starts[0] : starts[0] + size])
            if known is None:
                return None
            if known.is_record:
                rows = sliding_window_view(data, size)[starts]
                parts.append((lines, read(rows, known)))
        return _joined(parts)

    def _shape(self, shape: bytes, line: bytes) -> Shape | None:
        if shape not in self._shapes:
            if any(anchor in line for anchor in self._form.anchors):
                self._shapes[shape] = shape_of(line, self._form)
            else:
                self._shapes[shape] = Shape(is_record=False, numbers={}, constants={})
        return self._shapes[shape]


def _repeats(shapes: bytes) -> bool:
    """Return whether a line mostly has the shape of the line before."""
    lines = shapes[:_SAMPLE].split(b"\n")
    same = sum(one == other for one, other in pairwise(lines))
    return same > _MOSTLY * len(lines)


def _by_run(shapes: bytes) -> dict[bytes, tuple[Places, Places]]:
    """Return the shapes of lines, each with which lines have it and where they start.

    Made for lines that mostly have the shape of the line before: few comparisons find them all.
    """
    groups: defaultdict[bytes, list[tuple[Places, Places]]] = defaultdict(list)
    start = index = 0
    while (end := shapes.find(b"\n", start)) >= 0:
        size = end + 1 - start
        line = shapes[start : end + 1]
        count = more = 1
        while more:
            at = start + size * count
            if shapes[at : at + size * more] == line * more:
                count += more
                more *= 2
            else:
                more //= 2
        which = np.arange(count)
        groups[line[:-1]].append((index + which, start + size * which))
        start += size * count
        index += count
    return {
        shape: (np.concatenate([run[0] for run in runs]), np.concatenate([run[1] for run in runs]))
        for shape, runs in groups.items()
    }


def _by_line(shapes: bytes) -> dict[bytes, tuple[Places, Places]]:
    """Return the same, where every line may have another shape."""
    groups: defaultdict[bytes, list[int]] = defaultdict(list)
    lines = shapes.split(b"\n")[:-1]
    for index, shape in enumerate(lines):
        groups[shape].append(index)
    starts = np.cumsum([0, *(len(line) + 1 for line in lines)])
    return {shape: (np.array(found), starts[found]) for shape, found in groups.items()}


def _joined(parts: Sequence[tuple[Places, dict[str, Floats]]]) -> Columns:
    if not parts:
        return Columns({}, 0)
    order = np.argsort(np.concatenate([indices for indices, _ in parts]), kind="stable")
    names = [name for name in FIELDS if any(name in columns for _, columns in parts)]
    joined = {}
    for name in names:
        pieces = [
            columns[name] if name in columns else np.full(len(indices), np.nan)
            for indices, columns in parts
        ]
        joined[name] = np.concatenate(pieces)[order]
    return Columns(joined, len(order))
