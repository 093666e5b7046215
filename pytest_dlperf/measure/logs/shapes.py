"""Lines of one shape read at once: where their numbers stand is found out only once.

The shape of a line is its text with every digit made 0. Lines of one shape have their numbers in
the same places, so the parser is asked about one of them, with other digits put in, which of its
numbers become which field; the other lines are then read by columns. What cannot be found out
this way, the parser reads line by line.
"""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

import numpy as np

from pytest_dlperf.measure.logs.clean import untagged
from pytest_dlperf.measure.logs.declare import Reading
from pytest_dlperf.measure.logs.third_party import BrokenFormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from pytest_dlperf.measure.logs.declare import Format

    Floats = NDArray[np.float64]

#: Every digit to 0.
DIGITS_TO_0: Final = bytes.maketrans(b"123456789", b"0" * 9)
#: A number without sign and exponent, as far as float() takes it exactly from its digits.
_NUMBER: Final = re.compile(rb"\d+(?:\.\d*)?")
_DIGIT: Final = re.compile(rb"\d")
#: Fields of a reading that are numbers.
FIELDS: Final = tuple(field.name for field in fields(Reading))
#: Lines with other digits that the parser is asked about, for each shape.
_PROBES: Final = 4
#: A float holds whole numbers exactly up to this many digits.
_MOST_DIGITS: Final = 15
#: More shapes than this are no shapes: every line is another one.
MOST_SHAPES: Final = 512


@dataclass(frozen=True, slots=True)
class _Number:
    """Where a number stands, and what the field is: ``factor * number + offset``."""

    start: int
    end: int
    factor: float
    offset: float


@dataclass(frozen=True, slots=True)
class Shape:
    """How lines of one shape are read; ``is_record`` is False where the parser reads nothing."""

    is_record: bool
    numbers: dict[str, _Number]
    constants: dict[str, float]


def shape_of(line: bytes, form: Format) -> Shape | None:
    """Return how lines of the shape of ``line`` are read; None: line by line."""
    if any(_DIGIT.search(anchor) for anchor in form.anchors):
        return None  # whether it is a record is for its digits to say
    plain = untagged(line)
    if plain.rank is not None or not line.endswith(plain.text):
        return None
    cut = len(line) - len(plain.text)  # a container's time stamp
    generator = random.Random(line)
    probes = [line, *(_with_other_digits(line, generator) for _ in range(_PROBES))]
    found = _readings((probe[cut:] for probe in probes), form)
    if found is None or 0 < len(found) < len(probes):
        return None
    if not found:
        return Shape(is_record=False, numbers={}, constants={})
    places = [match.span() for match in _NUMBER.finditer(line, cut)]
    numbers: dict[str, _Number] = {}
    constants: dict[str, float] = {}
    for name in FIELDS:
        values = [getattr(reading, name) for reading in found]
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


def _readings(lines: Iterable[bytes], form: Format) -> list[Reading] | None:
    """Return what the parser reads; None where it cannot bear digits that mean nothing."""
    try:
        readings = [form.parse(line) for line in lines]
    except BrokenFormatError:
        return None
    return [reading for reading in readings if reading is not None]


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
            return _Number(start, end, 1.0, offset)
        factor = values[1] / texts[1]
        if all(
            abs(value - factor * text) <= 1e-12 * abs(value)
            for value, text in zip(values, texts, strict=True)
        ):
            return _Number(start, end, factor, 0.0)
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
    # Sums of whole numbers below 2**53, of which there is no rounding.
    whole = digits.astype(np.float64) @ (10.0 ** np.arange(len(places) - 1, -1, -1))
    values: Floats = whole / 10.0**decimals
    if number.factor != 1.0:
        values *= number.factor
    if number.offset:
        values += number.offset
    return values
