"""Read the records of a block as columns: by the shapes of its lines, or by the parser."""

from __future__ import annotations

import math
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from pytest_dlperf.measure.logs.clean import LINE_BYTES, lines_with, stamp, untagged
from pytest_dlperf.measure.logs.declare import WHOLE_FIELDS, Format, LogRecord
from pytest_dlperf.measure.logs.registry import BrokenFormatError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Places = NDArray[np.intp]
    Floats = NDArray[np.float64]


# The shape of a line is its text with every digit made 0. Lines of one shape have their numbers in
# the same places, so the parser is asked about one of them, with other digits put in, which of its
# numbers become which field; the other lines are then read by columns. Lines of which this cannot
# be found out the parser reads one by one.

#: Every digit to 0.
DIGITS_TO_0: Final = bytes.maketrans(b"123456789", b"0" * 9)
#: A number without sign and exponent, as far as float() takes it exactly from its digits.
_NUMBER: Final = re.compile(rb"\d+(?:\.\d*)?")
_DIGIT: Final = re.compile(rb"\d")
#: Fields of a record that are numbers.
FIELDS: Final = tuple(field.name for field in fields(LogRecord))
#: Of a row, beside its record.
_BESIDE: Final = ("rank", "at_s")
NAMES: Final = (*FIELDS, *_BESIDE)
_WHOLE: Final = WHOLE_FIELDS | {"rank"}
#: Lines with other digits that the parser is asked about, for each shape.
_PROBES: Final = 4
#: A float holds whole numbers exactly up to this many digits.
_MOST_DIGITS: Final = 15
#: More shapes than this are no shapes: every line is another one.
MOST_SHAPES: Final = 512
#: So many bytes of a block show whether its lines repeat a shape.
_SAMPLE: Final = 1 << 14
#: From this share of lines on, those of one shape are looked for in runs.
_MOSTLY: Final = 0.75


@dataclass(frozen=True, slots=True)
class _Number:
    """The place of a number in a line, and its field: ``factor * number / per + offset``."""

    start: int
    end: int
    factor: float = 1.0
    per: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True, slots=True)
class Shape:
    """How lines of one shape are read; ``is_record`` is False where the parser reads nothing."""

    is_record: bool
    numbers: dict[str, _Number]
    constants: dict[str, float]


def shape_of(line: bytes, fmt: Format) -> Shape | None:
    """Return how lines of the shape of ``line`` are read; None: line by line."""
    if any(_DIGIT.search(anchor) for anchor in fmt.anchors):
        return None  # its digits decide whether it is a record
    plain = untagged(line)
    if plain.rank is not None or not line.endswith(plain.text):
        return None
    cut = len(line) - len(plain.text)  # a container's time stamp
    generator = random.Random(line)
    probes = [line, *(_with_other_digits(line, generator) for _ in range(_PROBES))]
    records = _records((probe[cut:] for probe in probes), fmt)
    if records is None or 0 < len(records) < len(probes):
        return None
    if not records:
        return Shape(is_record=False, numbers={}, constants={})
    places = [match.span() for match in _NUMBER.finditer(line, cut)]
    numbers: dict[str, _Number] = {}
    constants: dict[str, float] = {}
    for name in FIELDS:
        values = [getattr(record, name) for record in records]
        if all(value is None for value in values):
            continue
        if any(value is None for value in values):
            return None
        number = _find(values, probes, places)
        if number is not None:
            numbers[name] = number
        elif len(set(values)) == 1:
            constants[name] = float(values[0])
        else:
            return None
    return Shape(is_record=True, numbers=numbers, constants=constants)


def _records(lines: Iterable[bytes], fmt: Format) -> list[LogRecord] | None:
    """Return what the parser reads; None if it fails on digits that mean nothing."""
    try:
        records = [fmt.parse(line) for line in lines]
    except BrokenFormatError:
        return None
    return [record for record in records if record is not None]


def _with_other_digits(line: bytes, generator: random.Random) -> bytes:
    return _DIGIT.sub(lambda _: str(generator.randint(1, 9)).encode(), line)


def _find(
    values: Sequence[float], probes: Sequence[bytes], places: Sequence[tuple[int, int]]
) -> _Number | None:
    """Return the number of the line that a field is made of, by a factor or an offset."""
    if not all(map(math.isfinite, values)):
        return None  # a lost loss has no digits
    for start, end in places:
        if end - start > _MOST_DIGITS:
            continue
        texts = [float(probe[start:end]) for probe in probes]
        if len(set(texts)) == 1:
            continue
        offset = values[1] - texts[1]
        if all(value - text == offset for value, text in zip(values, texts, strict=True)):
            return _Number(start, end, offset=offset)
        # Of a unit such as milliseconds: a product with the inverse would round otherwise.
        per = float(round(texts[1] / values[1])) if values[1] else 0.0
        if per and all(value == text / per for value, text in zip(values, texts, strict=True)):
            return _Number(start, end, per=per)
        factor = values[1] / texts[1]
        if all(
            abs(value - factor * text) <= 1e-12 * abs(value)
            for value, text in zip(values, texts, strict=True)
        ):
            return _Number(start, end, factor=factor)
    return None


def read(rows: NDArray[np.uint8], shape: Shape) -> dict[str, Floats]:
    """Return a column for each field that lines of ``shape`` have; ``rows`` are their bytes."""
    columns = {name: np.full(len(rows), value) for name, value in shape.constants.items()}
    line = rows[0].tobytes()
    for name, number in shape.numbers.items():
        columns[name] = _value(rows, line, number)
    return columns


def _value(rows: NDArray[np.uint8], line: bytes, number: _Number) -> Floats:
    """Return the numbers at one place: their digits as a whole number, over a power of ten.

    A division of two whole numbers that floats hold exactly rounds as float() does.
    """
    word = line[number.start : number.end]
    point = word.find(b".")
    decimals = 0 if point < 0 else len(word) - point - 1
    places = [place for place in range(len(word)) if place != point]
    digits = rows[:, number.start : number.end][:, places] - np.uint8(ord("0"))
    # Sums of whole numbers below 2**53 are exact.
    whole = digits.astype(np.float64) @ (10.0 ** np.arange(len(places) - 1, -1, -1))
    values: Floats = whole / 10.0**decimals
    if number.per != 1.0:
        values /= number.per
    if number.factor != 1.0:
        values *= number.factor
    if number.offset:
        values += number.offset
    return values


class Row(NamedTuple):
    """One record, with what its line says beside it."""

    record: LogRecord
    #: As a launcher's tag names it.
    rank: int | None
    #: The line's time stamp in seconds, of which only differences mean anything.
    at_s: float | None


class Columns:
    """Records by field, in the order of the log; NaN is a number that a line does not have."""

    def __init__(
        self, length: int, columns: dict[str, Floats] | None = None, rows: Sequence[Row] = ()
    ) -> None:
        """``rows`` are all records, where the parser made them: columns are gathered from them."""
        self.length = length
        self._columns = columns or {}
        self._rows = rows

    def __getitem__(self, name: str) -> Floats:
        """Return a field of all records."""
        if name in self._columns:
            return self._columns[name]
        field = attrgetter(name if name in _BESIDE else f"record.{name}")
        numbers = [*map(field, self._rows)]
        if numbers.count(None) == len(numbers):
            return np.full(self.length, np.nan)
        column: Floats = np.array(numbers, dtype=np.float64)  # None becomes NaN
        self._columns[name] = column
        return column

    def __contains__(self, name: str) -> bool:
        """Return whether any record has the field."""
        return not bool(np.isnan(self[name]).all())

    def part(self, begin: int, end: int) -> Columns:
        """Return the records from ``begin`` to before ``end``."""
        columns = {name: column[begin:end] for name, column in self._columns.items()}
        return Columns(end - begin, columns, self._rows[begin:end])

    def row(self, index: int) -> Row:
        """Return one record."""
        if self._rows:
            return self._rows[index]
        values: dict[str, Any] = {}
        for name, column in self._columns.items():
            value = float(column[index])
            if not math.isnan(value):
                values[name] = int(value) if name in _WHOLE else value
        rank, at_s = values.pop("rank", None), values.pop("at_s", None)
        return Row(LogRecord(**values), rank, at_s)


class Reader:
    """Reads the records of one log, and keeps the shapes of lines that it has met."""

    def __init__(self, fmt: Format, *, stamped: bool = False) -> None:
        """Time stamps are read if ``stamped``: then the parser reads each line."""
        self._format = fmt
        self._stamped = stamped
        self._shapes: dict[bytes, Shape | None] = {}

    def columns(self, text: bytes) -> Columns:
        """Return the records of plain text, whole lines."""
        by_shape: list[tuple[Shape, int, Places, Places]] = []
        by_parser: list[tuple[int, Places, Places]] = []
        groups = self._groups(text)
        for words, (indices, starts) in groups.items():
            shape = self._shape(words, text, starts[0])
            if shape is None:
                by_parser.append((len(words), indices, starts))
            elif shape.is_record:
                by_shape.append((shape, len(words), indices, starts))
        lines_of_all = sum(len(indices) for indices, _ in groups.values())
        if 2 * sum(len(indices) for _, indices, _ in by_parser) >= lines_of_all:
            # To join what the parser reads with few columns costs as much as they save.
            rows = list(self._rows(text))
            return Columns(len(rows), rows=rows)
        data = np.frombuffer(text, dtype=np.uint8)
        parts = []
        for shape, size, indices, starts in by_shape:
            columns = read(sliding_window_view(data, size)[starts], shape)
            parts.append((indices, Columns(len(indices), columns)))
        for size, indices, starts in by_parser:
            lines = zip(indices.tolist(), starts.tolist(), strict=True)
            read_rows = [
                (index, row)
                for index, start in lines
                for row in self._rows(text[start : start + size])
            ]
            if read_rows:
                places = np.array([index for index, _ in read_rows])
                parts.append((places, Columns(len(places), rows=[row for _, row in read_rows])))
        return _joined(parts)

    def _groups(self, text: bytes) -> dict[bytes, tuple[Places, Places]]:
        """Return the lines of each shape; none if shapes are not looked for, or are too many."""
        if not self._format.by_shape or self._stamped or len(self._shapes) > 4 * MOST_SHAPES:
            return {}
        shapes = text.translate(DIGITS_TO_0)
        groups = _lines_by_run(shapes) if _repeats(shapes) else _lines_by_shape(shapes)
        return groups if len(groups) <= MOST_SHAPES else {}

    def _rows(self, text: bytes) -> Iterator[Row]:
        """Yield what the parser reads of the lines."""
        for line, rank in lines_with(text, self._format.anchors):
            record = self._format.parse(line)
            if record is not None:
                yield Row(record, rank, stamp(line) if self._stamped else None)

    def _shape(self, shape: bytes, text: bytes, start: int) -> Shape | None:
        """Return how lines of a shape are read, by the line of ``text`` that begins there."""
        if len(shape) > LINE_BYTES:
            return None
        if shape not in self._shapes:
            line = text[start : start + len(shape)]
            if any(anchor in line for anchor in self._format.anchors):
                self._shapes[shape] = shape_of(line, self._format)
            else:
                self._shapes[shape] = Shape(is_record=False, numbers={}, constants={})
        return self._shapes[shape]


def _repeats(shapes: bytes) -> bool:
    """Return whether a line mostly has the shape of the line before."""
    lines = shapes[:_SAMPLE].split(b"\n")
    same = sum(line == following for line, following in pairwise(lines))
    return same > _MOSTLY * len(lines)


def _lines_by_run(shapes: bytes) -> dict[bytes, tuple[Places, Places]]:
    """Return the shapes of lines, each with which lines have it and where they start.

    Made for lines that mostly have the shape of the line before: few comparisons find them all.
    """
    groups: defaultdict[bytes, list[tuple[Places, Places]]] = defaultdict(list)
    start = index = 0
    while (end := shapes.find(b"\n", start)) >= 0:
        size = end + 1 - start
        line = shapes[start : end + 1]
        count = further = 1
        while further:
            begin = start + size * count
            if shapes[begin : begin + size * further] == line * further:
                count += further
                further *= 2
            else:
                further //= 2
        which = np.arange(count)
        groups[line[:-1]].append((index + which, start + size * which))
        start += size * count
        index += count
    return {
        shape: (np.concatenate([run[0] for run in runs]), np.concatenate([run[1] for run in runs]))
        for shape, runs in groups.items()
    }


def _lines_by_shape(shapes: bytes) -> dict[bytes, tuple[Places, Places]]:
    """Return the same, where every line may have another shape."""
    groups: defaultdict[bytes, list[int]] = defaultdict(list)
    lines = shapes.split(b"\n")[:-1]
    for index, shape in enumerate(lines):
        groups[shape].append(index)
    starts = np.cumsum([0, *(len(line) + 1 for line in lines)])
    return {shape: (np.array(indices), starts[indices]) for shape, indices in groups.items()}


def _joined(parts: Sequence[tuple[Places, Columns]]) -> Columns:
    """Return the records of all parts in the order of their lines, whose numbers come first."""
    if not parts:
        return Columns(0)
    order = np.argsort(np.concatenate([places for places, _ in parts]), kind="stable")
    names = [name for name in NAMES if any(name in columns for _, columns in parts)]
    joined = {
        name: np.concatenate([columns[name] for _, columns in parts])[order] for name in names
    }
    return Columns(len(order), joined)
