"""The records of a block, as columns where its lines have shapes, else one by one."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from pytest_dlperf.logs.clean import LINE_BYTES, lines_with
from pytest_dlperf.logs.declare import Reading
from pytest_dlperf.logs.shapes import DIGITS_TO_0, FIELDS, MOST_SHAPES, Shape, read, shape_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_dlperf.logs.declare import Format
    from pytest_dlperf.logs.shapes import Floats

#: Blocks in which fewer lines than this share hold an anchor are searched for it.
_DENSE = 0.9
_SAMPLE = 1 << 16
_WHOLE = frozenset({"step", "epoch", "start", "total", "aside"})


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
    """Reads the blocks of one log; what it learnt of shapes it keeps."""

    def __init__(self, form: Format) -> None:
        self._form = form
        self._shapes: dict[bytes, Shape | None] = {}

    def columns(self, block: bytes) -> Columns | None:
        """Return the records of a plain block; None where it must be read line by line."""
        found = self._lines(block)
        if found is None:
            return None
        lines, text = found
        groups: defaultdict[bytes, list[int]] = defaultdict(list)
        for index, shape in enumerate(text.translate(DIGITS_TO_0).split(b"\n")):
            groups[shape].append(index)
        if len(groups) > MOST_SHAPES or len(self._shapes) > 4 * MOST_SHAPES:
            return None
        parts: list[tuple[list[int], dict[str, Floats]]] = []
        for shape, indices in groups.items():
            known = self._shape(shape, lines[indices[0]])
            if known is None:
                return None
            if known.is_record:
                parts.append((indices, read([lines[i] for i in indices], known)))
        return _joined(parts)

    def _lines(self, block: bytes) -> tuple[list[bytes], bytes] | None:
        """Return the lines that may be records, and the same as one text.

        All lines of a block where most are records; None where one has a rank, or is too long.
        """
        if self._is_dense(block[:_SAMPLE]):
            lines = block.split(b"\n")
            return None if max(map(len, lines)) > LINE_BYTES else (lines, block)
        found = list(lines_with(block, self._form.anchors))
        if any(line.rank is not None for line in found):
            return None
        lines = [line.text for line in found]
        return (lines, b"\n".join(lines)) if lines else ([b""], b"")

    def _is_dense(self, text: bytes) -> bool:
        hits = sum(text.count(anchor) for anchor in self._form.anchors)
        return hits > _DENSE * text.count(b"\n")

    def _shape(self, text: bytes, line: bytes) -> Shape | None:
        if text not in self._shapes:
            if any(anchor in line for anchor in self._form.anchors):
                self._shapes[text] = shape_of(line, self._form)
            else:
                self._shapes[text] = Shape(is_record=False, numbers={}, constants={})
        return self._shapes[text]


def _joined(parts: Sequence[tuple[list[int], dict[str, Floats]]]) -> Columns:
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
