"""Find out how lines of one skeleton are read, by what the parser says of such lines.

The parser is asked about one of them, with other digits put in, which of its numbers become which
field; then again with each run of digits as long as other lines have it. What it does not answer
alike it reads itself, line by line.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from pytest_dlperf.measure.logs.declare import Derived, LogRecord
from pytest_dlperf.measure.logs.digits import FewLines, Lines, Number, numbers_in, skeleton_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

#: Lines with other digits that the parser is asked about, for each skeleton.
_PROBES: Final = 4
#: And for each length of a run of digits.
_PROBES_OF_SIZE: Final = 2
_RUN: Final = re.compile(rb"\d+")
#: Before digits that are part of a word; an exponent is none.
_WORD_BEFORE: Final = re.compile(rb"[A-DF-Za-df-z_]$|(?<![\d.])[eE]$")


class Row(NamedTuple):
    """One record, with what its line says beside it."""

    record: LogRecord
    #: As a launcher's tag names it.
    rank: int | None
    #: The line's time stamp in seconds, of which only differences mean anything.
    at_s: float | None


@dataclass(frozen=True, slots=True)
class _Rule:
    """How an input is made of a number of the line: ``factor * number / per + offset``.

    Or of the number's inverse.
    """

    number: Number
    factor: float = 1.0
    per: float = 1.0
    offset: float = 0.0
    is_inverse: bool = False

    def values(self, lines: Lines | FewLines) -> Floats:
        """Return the input of each line."""
        values = lines.values(self.number)
        if self.is_inverse:
            with np.errstate(all="ignore"):
                return np.divide(1.0, values)
        if self.per != 1.0:
            values = values / self.per
        if self.factor != 1.0:
            values = values * self.factor
        return values + self.offset if self.offset else values


#: The numbers of a row, or of another thing that a line says, by name.
LineNumbers = Mapping[str, "float | None"]


class Inputs(NamedTuple):
    """The numbers that a row is made of, as they are or by ``derived``."""

    numbers: Mapping[str, float | None]
    derived: Derived | None


@dataclass(slots=True)
class Shape:
    """How lines of one skeleton are read."""

    #: One of them.
    line: bytes
    #: False where the parser reads nothing of them.
    is_record: bool
    rules: dict[str, _Rule] = field(default_factory=dict)
    constants: dict[str, float] = field(default_factory=dict)
    derived: Derived | None = None
    #: How long each run of digits of ``line`` is.
    usual_sizes: list[int] = field(default_factory=list)
    #: For each run of digits, the lengths at which it is read so, and those at which it is not.
    sizes: list[set[int]] = field(default_factory=list)
    refused: list[set[int]] = field(default_factory=list)
    #: Runs of digits that are part of words, such as that of bf16: lines have the same ones.
    word_runs: frozenset[int] = frozenset()


class ReadLines(NamedTuple):
    """What lines of one skeleton say, by field; NaN is a number that a line does not have."""

    columns: Mapping[str, Floats]
    #: Which lines are records, and which the parser has to read.
    are_records: Flags
    are_doubtful: Flags


class Shapes:
    """Learns the shapes of a format's lines from its parser."""

    def __init__(
        self,
        rows: Callable[[bytes], Sequence[LineNumbers]],
        inputs: Callable[[bytes], Inputs],
    ) -> None:
        """``rows`` is the parser, of a line with its marks.

        ``inputs`` gives the numbers that the one row of a line is made of, or would be.
        """
        self._rows = rows
        self._inputs = inputs

    def learn(self, line: bytes) -> Shape | None:
        """Return how lines like this one are read; None: by the parser, line by line."""
        word_runs = frozenset(
            run
            for run, match in enumerate(_RUN.finditer(line))
            if _WORD_BEFORE.search(line[: match.start()][-2:])
        )
        shape = self._learn(line, frozenset())
        return self._learn(line, word_runs) if shape is None and word_runs else shape

    def _learn(self, line: bytes, word_runs: frozenset[int]) -> Shape | None:
        generator = random.Random(line)
        probes = [line]
        probes += [_with_other_digits(line, generator, word_runs) for _ in range(_PROBES)]
        rows = self._one_row_each(probes)
        if rows is None:
            return None
        inputs = [self._inputs(probe) for probe in probes]
        # Of digits by which a line is a record, ``derived`` says which.
        derived = inputs[0].derived
        if derived is None and len({row is None for row in rows}) > 1:
            return None
        sizes = [len(run) for run in _RUN.findall(line)]
        shape = Shape(
            line,
            is_record=derived is not None or rows[0] is not None,
            derived=derived,
            word_runs=word_runs,
            usual_sizes=sizes,
            sizes=[{size} for size in sizes],
            refused=[set() for _ in sizes],
        )
        if shape.is_record and not self._find_rules(shape, probes, inputs):
            return None
        return shape if self._agrees(shape, probes, rows) else None

    def read(self, shape: Shape, lines: Lines | FewLines) -> ReadLines:
        """Return what lines of one shape say."""
        count = len(lines)
        nowhere = np.zeros(count, dtype=bool)
        doubtful = self._refused_lines(shape, lines)
        if not shape.is_record:
            return ReadLines({}, nowhere, doubtful)
        inputs = {name: np.full(count, value) for name, value in shape.constants.items()}
        for name, rule in shape.rules.items():
            inputs[name] = rule.values(lines)
            doubtful |= ~np.isfinite(inputs[name])
        if shape.derived is None:
            return ReadLines(inputs, ~nowhere, doubtful)
        beside = {name: inputs.pop(name) for name in BESIDE if name in inputs}
        fields = shape.derived.derive(inputs)
        are_records = np.broadcast_to(fields.pop("is_record"), count)
        columns = {name: np.broadcast_to(values, count) for name, values in fields.items()}
        return ReadLines(columns | beside, are_records, doubtful)

    def _refused_lines(self, shape: Shape, lines: Lines | FewLines) -> Flags:
        """Return which lines have a run of digits of a length that is not read as the others."""
        refused = np.zeros(len(lines), dtype=bool)
        texts = _RUN.findall(shape.line) if shape.word_runs else []
        for run in shape.word_runs:
            refused |= lines.values(Number((run,))) != float(texts[run])
        for run, (usual, column) in enumerate(zip(shape.usual_sizes, lines.sizes, strict=True)):
            sizes = np.flatnonzero(np.bincount(np.atleast_1d(column))).tolist()
            if sizes == [usual]:
                continue
            for size in sizes:
                if size not in shape.sizes[run] and size not in shape.refused[run]:
                    is_alike = run not in shape.word_runs and self._is_alike(shape, run, size)
                    (shape.sizes if is_alike else shape.refused)[run].add(size)
                if size in shape.refused[run]:
                    refused |= column == size
        return refused

    def _is_alike(self, shape: Shape, run: int, size: int) -> bool:
        """Return whether lines are read as the others where a run has so many digits."""
        generator = random.Random(size)
        begin, end = [match.span() for match in _RUN.finditer(shape.line)][run]
        line = shape.line[:begin] + b"0" * size + shape.line[end:]
        probes = [
            _with_other_digits(line, generator, shape.word_runs) for _ in range(_PROBES_OF_SIZE)
        ]
        rows = self._one_row_each(probes)
        if rows is None:
            return False
        sizes = [*shape.sizes]
        sizes[run] = {size}
        return self._agrees(replace(shape, sizes=sizes), probes, rows)

    def _one_row_each(self, lines: Sequence[bytes]) -> list[LineNumbers | None] | None:
        """Return the row of each line, or None for no row; None if a line has several."""
        rows = [self._rows(line) for line in lines]
        if any(len(line_rows) > 1 for line_rows in rows):
            return None
        return [line_rows[0] if line_rows else None for line_rows in rows]

    def _find_rules(self, shape: Shape, probes: Sequence[bytes], inputs: Sequence[Inputs]) -> bool:
        """Find the numbers of the line that a record is made of; return whether all are."""
        columns = _columns(inputs)
        if columns is None:
            return False
        lines = FewLines(probes)
        candidates = [
            (number, lines.values(number)) for number in numbers_in(skeleton_of(probes[0]))
        ]
        for name, values in columns.items():
            if (values == values[0]).all():
                shape.constants[name] = float(values[0])
                continue
            rule = _rule(values, candidates)
            if rule is None:
                return False
            shape.rules[name] = rule
        return True

    def _agrees(
        self, shape: Shape, probes: Sequence[bytes], rows: Sequence[LineNumbers | None]
    ) -> bool:
        """Return whether lines are read as the parser reads them."""
        read = self.read(shape, FewLines(probes))
        for index, row in enumerate(rows):
            if bool(read.are_records[index]) != (row is not None) or read.are_doubtful[index]:
                return False
            if row is not None and not self._is_same(read.columns, index, row):
                return False
        return True

    def _is_same(self, columns: Mapping[str, Floats], index: int, row: LineNumbers) -> bool:
        for name in {*row, *columns}:
            parsed = row.get(name)
            value = float(columns[name][index]) if name in columns else math.nan
            if math.isnan(value) != (parsed is None):
                return False
            if parsed is not None and not math.isclose(value, parsed, rel_tol=1e-12):
                return False
        return True


#: What a row has beside its record.
BESIDE: Final = ("rank", "at_s")


def number_of(row: Row, name: str) -> float | None:
    """Return a number of a row by its name, a field of the record or one beside it."""
    value: float | None = getattr(row if name in BESIDE else row.record, name)
    return value


def _columns(inputs: Sequence[Inputs]) -> dict[str, Floats] | None:
    """Return the numbers of lines by name; None if lines have other ones than the first."""
    names = [name for name, value in inputs[0].numbers.items() if value is not None]
    columns = {
        name: np.array([line_inputs.numbers.get(name) for line_inputs in inputs], dtype=np.float64)
        for name in names
    }
    count = sum(
        value is not None for line_inputs in inputs for value in line_inputs.numbers.values()
    )
    is_alike = len({line_inputs.derived for line_inputs in inputs}) == 1
    if not is_alike or count != len(names) * len(inputs):
        return None
    return None if any(np.isnan(column).any() for column in columns.values()) else columns


def _with_other_digits(line: bytes, generator: random.Random, word_runs: frozenset[int]) -> bytes:
    runs = count()

    def new_digits(match: re.Match[bytes]) -> bytes:
        if next(runs) in word_runs:
            return match[0]
        return bytes(generator.choices(b"123456789", k=len(match[0])))

    return _RUN.sub(new_digits, line)


def _rule(values: Floats, candidates: Iterable[tuple[Number, Floats]]) -> _Rule | None:
    """Return the number that an input is made of, by an offset, a unit or a factor."""
    if not np.isfinite(values).all():
        return None  # a lost loss has no digits
    for number, texts in candidates:
        if (texts == texts[0]).all():
            continue
        with np.errstate(all="ignore"):
            offset = float(values[1] - texts[1])
            if (values - texts == offset).all() and (texts + offset == values).all():
                return _Rule(number, offset=offset)
            per, factor = texts[1] / values[1], float(values[1] / texts[1])
            # Of a unit such as milliseconds: a product with the inverse would round otherwise.
            whole_per, whole_factor = float(np.round(per)), float(np.round(factor))
            if whole_per and (values == texts / whole_per).all():
                return _Rule(number, per=whole_per)
            if whole_factor and (values == texts / (1 / whole_factor)).all():
                return _Rule(number, per=1 / whole_factor)
            if (values == 1 / texts).all():
                return _Rule(number, is_inverse=True)
            if (values == texts * whole_factor).all():
                return _Rule(number, factor=whole_factor)
            if (np.abs(values - factor * texts) <= 1e-12 * np.abs(values)).all():
                return _Rule(number, factor=factor)
    return None
