"""Read the records of a block as columns: by the shapes of its lines, or by the parser."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pytest_dlperf.measure.logs.block import MOST_KINDS, Block
from pytest_dlperf.measure.logs.clean import LINE_BYTES, Line, lines_with, untagged
from pytest_dlperf.measure.logs.clocks import Clock
from pytest_dlperf.measure.logs.declare import WHOLE_FIELDS, Format, LogRecord
from pytest_dlperf.measure.logs.digits import Lines, Text
from pytest_dlperf.measure.logs.events import events_of, joined, records_of
from pytest_dlperf.measure.logs.registry import BrokenFormatError
from pytest_dlperf.measure.logs.shapes import (
    BESIDE,
    Inputs,
    LineNumbers,
    Row,
    Shape,
    Shapes,
    number_of,
)
from pytest_dlperf.measure.logs.trained import WORDS, with_words_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Places = NDArray[np.intp]
    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

    from pytest_dlperf.measure.logs.events import ByColumn


#: Fields of a record that are numbers.
FIELDS: Final = tuple(field.name for field in fields(LogRecord))
NAMES: Final = (*FIELDS, *BESIDE)
_WHOLE: Final = WHOLE_FIELDS | {"rank"}
#: A shape is learnt when so many lines of it have come: until then the parser costs less.
_LINES_TO_LEARN: Final = 16


class Columns:
    """Records by field, in the order of the log; NaN is a number that a line does not have."""

    def __init__(
        self, length: int, columns: dict[str, Floats] | None = None, rows: Sequence[Row] = ()
    ) -> None:
        """``rows`` are all records, where the parser made them: columns are gathered from them."""
        self.length = length
        self._columns = columns or {}
        self._rows = rows
        #: The columns as lists, once single records of them are asked for.
        self._lists: dict[str, list[float]] = {}

    def __getitem__(self, name: str) -> Floats:
        """Return a field of all records."""
        if name in self._columns:
            return self._columns[name]
        field = attrgetter(name if name in BESIDE else f"record.{name}")
        numbers = [*map(field, self._rows)]
        if numbers.count(None) == len(numbers):
            return np.full(self.length, np.nan)
        column: Floats = np.array(numbers, dtype=np.float64)  # None becomes NaN
        self._columns[name] = column
        return column

    def __contains__(self, name: str) -> bool:
        """Return whether any record has the field."""
        is_there = bool(self._rows) or name in self._columns
        return is_there and not bool(np.isnan(self[name]).all())

    def has(self, name: str) -> bool:
        """Return whether there is a column of the name, be it without numbers."""
        return name in self._columns

    def part(self, begin: int, end: int) -> Columns:
        """Return the records from ``begin`` to before ``end``."""
        columns = {name: column[begin:end] for name, column in self._columns.items()}
        return Columns(end - begin, columns, self._rows[begin:end])

    def rows(self, places: Places) -> Columns:
        """Return the records at these places."""
        names = {*NAMES, *self._columns} if self._rows else self._columns
        return Columns(len(places), {name: self[name][places] for name in names})

    def replaced(self, **columns: Floats) -> Columns:
        """Return them with later columns in place of those of the same names."""
        return Columns(self.length, self._columns | columns, self._rows)

    def row(self, index: int) -> Row:
        """Return one record."""
        if self._rows:
            return self._rows[index]
        if not self._lists:
            self._lists = {name: column.tolist() for name, column in self._columns.items()}
        values: dict[str, Any] = {
            name: value
            for name, column in self._lists.items()
            if not math.isnan(value := column[index])
        }
        for name in values.keys() & _WHOLE:
            values[name] = int(values[name])
        rank, at_s = values.pop("rank", None), values.pop("at_s", None)
        return Row(LogRecord(**values), rank, at_s)


class Reader:
    """Reads the records of one log, and keeps the shapes of lines that it has met."""

    def __init__(self, fmt: Format, *, stamped: bool = False) -> None:
        """All time stamps are read if ``stamped``: the parser reads each line. Else, some are."""
        self.clock = Clock()
        self._format = fmt
        self._by_shape = fmt.by_shape and not stamped
        self._reading = Shapes(self._line_numbers, self._inputs)
        self.shapes: dict[bytes, Shape | None] = {}
        #: How many lines there were of skeletons that were not learnt yet.
        self._met: Counter[bytes] = Counter()

    def columns(self, text: bytes) -> Columns:
        """Return the records of plain text, whole lines."""
        block = Block(text)
        by_column, lines = self._lines_by_column(block)
        parsed: list[tuple[int, Row]] = []
        if self._format.in_order is None:
            for place, line in lines:
                record = self._format.parse(line.text)
                if record is not None:
                    parsed.append((place, self._row(record, line)))
        else:
            by_column, parsed = self._in_order(by_column, [*lines])
        rows = [row for _, row in parsed]
        if not by_column:
            return Columns(len(rows), rows=rows)
        parts = self._stamped(by_column, block.lines)
        if rows:
            places = np.array([place for place, _ in parsed])
            parts.append((places, Columns(len(rows), rows=rows)))
        return _joined(parts)

    def _lines_by_column(self, block: Block) -> tuple[list[ByColumn], Iterator[tuple[int, Line]]]:
        """Return the lines that are read by columns, and those for the parser by their places."""
        anchors = self._format.anchors
        kinds = block.kinds_with(anchors) if self._looks_for_shapes else {}
        by_shape = [
            (shape, lines)
            for kind, lines in kinds.items()
            if (shape := self._shape(kind, block.lines, lines)) is not None
        ]
        if 2 * sum(len(lines) for _, lines in by_shape) <= sum(map(len, kinds.values())):
            # To join what the parser reads with few columns costs as much as they save.
            return [], enumerate(lines_with(block, anchors))
        by_column: list[ByColumn] = []
        whole = block.lines
        by_parser = np.zeros(len(whole), dtype=bool)
        for lines in kinds.values():
            by_parser[lines.lines] = True
        is_long = whole.line_ends - whole.line_starts > LINE_BYTES
        for shape, lines in by_shape:
            read = self._reading.read(shape, lines)
            doubtful = read.are_doubtful | is_long[lines.lines]
            by_parser[lines.lines] = doubtful
            kept = read.are_records & ~doubtful
            if kept.all():
                by_column.append((lines.lines, read.columns))
            elif kept.any():
                columns = {name: column[kept] for name, column in read.columns.items()}
                by_column.append((lines.lines[kept], columns))
        return by_column, (
            (index, line)
            for index in np.flatnonzero(by_parser).tolist()
            for line in lines_with(whole.line(index), anchors)
        )

    def _in_order(
        self, by_column: list[ByColumn], lines: Sequence[tuple[int, Line]]
    ) -> tuple[list[ByColumn], list[tuple[int, Row]]]:
        """Return the records of the numbers of lines, and those of the lines for the parser."""
        in_order = self._format.in_order
        assert in_order is not None
        numbers = [in_order.numbers(line.text) for _, line in lines]
        events = [
            (place, {**event, "rank": line.rank, "line": index})
            for index, ((place, line), event) in enumerate(zip(lines, numbers, strict=True))
            if event is not None
        ]
        if events:
            places = np.array([place for place, _ in events])
            by_column = [*by_column, (places, events_of([event for _, event in events]))]
        records: dict[int, LogRecord] = {}
        if by_column:
            places, columns = joined(by_column)
            fields = in_order.derive(columns)
            is_record, line_of = fields.pop("is_record"), columns["line"]
            rows = np.flatnonzero(is_record & ~np.isnan(line_of))
            indices = line_of[rows].astype(int).tolist()
            records = dict(zip(indices, records_of(fields, rows), strict=True))
            rows = np.flatnonzero(is_record & np.isnan(line_of))
            fields["rank"] = columns["rank"]
            kept = {name: column[rows] for name, column in fields.items()}
            by_column = [(places[rows], kept)] if len(rows) else []
        parsed = []
        for index, (place, line) in enumerate(lines):
            record = with_words_of(line.text, records.get(index), is_bar=self._format.bar)
            if record is not None:
                parsed.append((place, self._row(record, line)))
        return by_column, parsed

    def _row(self, record: LogRecord, line: Line) -> Row:
        if self._format.printed_resolution is not None:
            at_s = self.clock.elapsed(record.elapsed_s, self._format.printed_resolution())
            return Row(record, line.rank, at_s)
        return Row(record, line.rank, self.clock.read(line.text, line.stamp))

    def _stamped(self, by_column: Sequence[ByColumn], whole: Text) -> list[tuple[Places, Columns]]:
        """Return records that were read by columns with the stamps of some of them."""
        at_s = np.full(len(whole), np.nan)
        if by_column:
            lines = np.sort(np.concatenate([places for places, _ in by_column]))
            for index in lines[self.clock.sample(len(lines))].tolist():
                line = untagged(whole.line(index))
                seconds = self.clock.read(line.text, line.stamp)
                at_s[index] = np.nan if seconds is None else seconds
        return [
            (places, Columns(len(places), {**columns, "at_s": at_s[places]}))
            for places, columns in by_column
        ]

    @property
    def _looks_for_shapes(self) -> bool:
        return self._by_shape and len(self.shapes) <= 4 * MOST_KINDS

    def _line_numbers(self, text: bytes) -> list[LineNumbers]:
        """Return the numbers of each row of a line, or of each line that others add to."""
        lines = [*lines_with(text, self._format.anchors)]
        if self._format.in_order is None:
            parsed = [(line.rank, self._format.parse(line.text)) for line in lines]
            rows = [Row(record, rank, None) for rank, record in parsed if record is not None]
            return [{name: number_of(row, name) for name in NAMES} for row in rows]
        events = [(line.rank, self._format.in_order.numbers(line.text)) for line in lines]
        return [{**event, "rank": rank} for rank, event in events if event is not None]

    def _inputs(self, text: bytes) -> Inputs:
        """Return the numbers that the row of a line is made of, or would be."""
        derived = self._format.derived
        lines = [*lines_with(text, self._format.anchors)]
        if derived is not None and len(lines) == 1:
            numbers = derived.numbers(lines[0].text)
            if numbers is not None:
                return Inputs({**numbers, "rank": lines[0].rank}, derived)
        rows = self._line_numbers(text)
        return Inputs(rows[0] if rows else {}, None)

    def _shape(self, skeleton: bytes, text: Text, lines: Lines) -> Shape | None:
        """Return how lines of a skeleton are read; None: by the parser."""
        if skeleton in self.shapes:
            return self.shapes[skeleton]
        line = text.line(int(lines.lines[0]))
        if len(line) > LINE_BYTES:
            return None
        if not any(anchor in line for anchor in self._format.anchors):
            self.shapes[skeleton] = None  # others of its skeleton have one with their digits
            return None
        self._met[skeleton] += len(lines)
        if self._met[skeleton] < _LINES_TO_LEARN:
            return None
        shape = self._learn(line)
        # That one may be odd: others show how records are read, not that there are none.
        for place in (len(lines) // 2, len(lines) - 1) if shape is None else ():
            later = self._learn(text.line(int(lines.lines[place])))
            if later is not None and later.is_record:
                shape = later
                break
        self.shapes[skeleton] = shape
        return shape

    def _learn(self, line: bytes) -> Shape | None:
        if self._format.in_order is not None and any(word in line for word in WORDS):
            return None  # whether it is heard is said by lines before it
        try:
            return self._reading.learn(line)
        except BrokenFormatError:
            return None  # it fails on digits that mean nothing


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
