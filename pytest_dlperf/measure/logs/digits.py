"""The numbers of many lines at once: where their digits are, and what they come to.

The skeleton of a line is its text with each run of digits made one 0: lines of one skeleton have
the same numbers in the same order, each with its own length.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Places = NDArray[np.intp]
    Floats = NDArray[np.float64]
    Wholes = NDArray[np.uint64]
    Sizes = NDArray[np.intp] | np.intp

#: Every digit to 0.
_DIGITS_TO_0: Final = bytes.maketrans(b"123456789", b"0" * 9)
#: A float holds whole numbers exactly up to this many digits.
_MOST_DIGITS: Final = 15
#: And powers of ten up to this one.
_MOST_POWER: Final = 22
_POWERS: Final = 10.0 ** np.arange(_MOST_POWER + 1)
#: Extended floats hold whole numbers and powers of ten up to these, if they have as many bits.
_MOST_LONG_DIGITS: Final = 19 if np.finfo(np.longdouble).nmant >= 63 else 0
_LONG_POWERS: Final = np.cumprod(np.array([1] + [10] * 27, dtype=np.longdouble))
_WHOLE_POWERS: Final = np.array([10**power for power in range(20)], dtype=np.uint64)
#: Of the digits of a word pairs, then fours, then all eight become one number, each in the upper
#: part of what the product leaves: what is kept, the factor, and how far it is moved down.
_WORD: Final = 8
#: Bits of a word beside so many digits.
_OTHER_BITS: Final = np.arange(8 * _WORD, -1, -8, dtype=np.uint64)
_STEPS: Final = tuple(
    tuple(map(np.uint64, step))
    for step in (
        (0x0F0F0F0F0F0F0F0F, 10 * 2**8 + 1, 8),
        (0x00FF00FF00FF00FF, 100 * 2**16 + 1, 16),
        (0x0000FFFF0000FFFF, 10000 * 2**32 + 1, 32),
    )
)
_RUN: Final = re.compile(rb"\d+")
#: A number in a skeleton: its digits, in groups that commas part, its decimals and its exponent.
_NUMBER: Final = re.compile(rb"0(?:,0)*(?:(\.)(0)?)?(?:[eE]([+-]?)(0))?")


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a skeleton, each part by the index of its run of digits."""

    #: More than one where commas are between.
    whole: tuple[int, ...]
    decimals: int | None = None
    exponent: int | None = None
    #: The sign of the exponent.
    exponent_sign: int = 1


def numbers_in(skeleton: bytes) -> Iterator[Number]:
    """Yield the numbers of a skeleton, each with the parts of it that a parser may read alone."""
    runs = 0
    for match in _NUMBER.finditer(skeleton):
        count = match[0].count(b"0")
        runs, begin = runs + count, runs
        groups = count - (match[2] is not None) - (match[4] is not None)
        whole = tuple(range(begin, begin + groups))
        decimals = begin + groups if match[2] is not None else None
        if match[4] is not None:
            yield Number(whole, decimals, runs - 1, -1 if match[3] == b"-" else 1)
        if decimals is not None:
            yield Number(whole, decimals)
        if groups > 1:
            yield Number(whole)
        for run in range(begin, runs):
            yield Number((run,))


class Lines:
    """Lines of a text that have one skeleton, and the numbers in them."""

    def __init__(
        self,
        text: Text,
        lines: Places,
        start_of: Callable[[int], Places],
        sizes: Sequence[Sizes],
    ) -> None:
        """``lines`` are their indices in the text, ``start_of`` says where a run of each starts.

        ``sizes`` has an entry for each run: one number where all lines have as many digits there.
        """
        self.lines = lines
        self.sizes = sizes
        self._text = text
        self._start_of = start_of

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.lines)

    def values(self, number: Number) -> Floats:
        """Return a number of each line as float() reads it, without its sign.

        NaN for one with commas that begins with a 0.
        """
        values = self._values(number)
        if len(number.whole) > 1:
            begins = self._text.bytes_at(self._start_of(number.whole[0]))
            values = np.where(begins == ord("0"), np.nan, values)
        return values

    def _values(self, number: Number) -> Floats:
        sizes = self.sizes
        runs = [*number.whole, *(() if number.decimals is None else (number.decimals,))]
        total, count = self._whole(runs[0]), sizes[runs[0]]
        for run in runs[1:]:
            total = total * _whole_power(sizes[run]) + self._whole(run)
            count = count + sizes[run]
        power: Sizes = np.intp(0) if number.decimals is None else -sizes[number.decimals]
        if number.exponent is not None:
            exponent = self._whole(number.exponent).astype(np.intp)
            power = power + number.exponent_sign * exponent
        values = total.astype(np.float64)
        # A quotient or a product of two numbers that floats hold exactly rounds as float() does.
        if number.exponent is not None:
            scale = _power(np.abs(power))
            values = np.where(power < 0, values / scale, values * scale)
        elif number.decimals is not None:
            values = values / _power(-power)
        inexact = (count > _MOST_DIGITS) | (np.abs(power) > _MOST_POWER)
        if inexact.any():
            rows = np.flatnonzero(np.broadcast_to(inexact, len(self)))
            rows = _correct_long(values, rows, total, count, power)
            self._correct(values, rows, number)
        return values

    def _whole(self, run: int) -> Wholes:
        """Return runs of digits as whole numbers, of those that are longer the last 19 digits."""
        sizes = self.sizes[run]
        ends = self._start_of(run) + sizes
        most = int(sizes.max())
        total = self._text.word(ends, sizes)
        for done in range(_WORD, min(most, len(_WHOLE_POWERS) - 1), _WORD):
            total += self._text.word(ends - done, sizes - done) * _WHOLE_POWERS[done]
        return total

    def _correct(self, values: Floats, rows: Places, number: Number) -> None:
        """Put into these rows what float() itself reads."""
        parts = (number.exponent, number.decimals, number.whole[-1])
        last = next(part for part in parts if part is not None)
        begins = self._start_of(number.whole[0])[rows]
        ends = (self._start_of(last) + self.sizes[last])[rows]
        values[rows] = [
            float(self._text.text[begin:end].replace(b",", b""))
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        ]


class FewLines:
    """As ``Lines``, at less cost for a few."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        """``lines`` have one skeleton."""
        self._runs = [_RUN.findall(line) for line in lines]
        runs = zip(*self._runs, strict=True)
        self.sizes = [np.array([*map(len, texts)], dtype=np.intp) for texts in runs]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._runs)

    def values(self, number: Number) -> Floats:
        """Return a number of each line as ``Lines`` does."""
        return np.array([_float(runs, number) for runs in self._runs], dtype=np.float64)


def _float(runs: Sequence[bytes], number: Number) -> float:
    text = b"".join(runs[run] for run in number.whole)
    if len(number.whole) > 1 and text.startswith(b"0"):
        return math.nan
    if number.decimals is not None:
        text += b"." + runs[number.decimals]
    if number.exponent is not None:
        text += (b"e-" if number.exponent_sign < 0 else b"e+") + runs[number.exponent]
    return float(text)


class Text:
    """Whole lines, and where they are."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._zeros = text.translate(_DIGITS_TO_0)
        self._zero_bytes = np.frombuffer(self._zeros, dtype=np.uint8)
        #: Where each line ends, at its line feed, and where it starts.
        self.line_ends = np.flatnonzero(self._zero_bytes == ord("\n"))
        self.line_starts = np.concatenate([[0], self.line_ends[:-1] + 1])
        # So that words come before any place.
        margin = np.zeros(3 * _WORD, dtype=np.uint8)
        self._data = np.concatenate([margin, np.frombuffer(text, dtype=np.uint8)])
        self._margin = len(margin)
        #: The word that begins at each byte.
        self._words = np.ndarray(len(self._data) - _WORD + 1, "<u8", self._data, strides=(1,))

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self.line_ends)

    def line(self, index: int) -> bytes:
        """Return a line with its end."""
        return self.text[self.line_starts[index] : self.line_ends[index] + 1]

    def bytes_at(self, places: Places) -> Bytes:
        """Return the byte at each place."""
        return self._data[places + self._margin]

    def word(self, ends: Places, sizes: Sizes) -> Wholes:
        """Return the number of up to eight digits before each place; ``sizes``: of so many."""
        digits = self._words[ends + (self._margin - _WORD)]
        # What is before them in the text is below them in the word.
        other_bits = np.take(_OTHER_BITS, sizes, mode="clip")
        digits >>= other_bits
        digits <<= other_bits
        for kept, factor, bits in _STEPS:
            digits &= kept
            digits *= factor
            digits >>= bits
        return digits

    def lines_by_shape(self, most: float) -> dict[bytes, Lines] | None:
        """Return the lines of each skeleton, by what is left of them with each digit made 0.

        Lines of one such shape have their numbers at the same places. None if there are more than
        ``most`` of them: then the lines of each skeleton are looked for at less cost.
        """
        # An early end, where nearly each line is another one.
        part = 4 * int(most) + 1
        if len({*self._zeros.split(b"\n", part)[:part]}) > most:
            return None
        groups = _grouped(self._zeros.split(b"\n")[:-1], most)
        if groups is None:
            return None
        alike: dict[bytes, list[bytes]] = {}
        for shape in groups:
            alike.setdefault(skeleton_of(shape), []).append(shape)
        return {
            skeleton: self._lines_of_shapes(shapes, [groups[shape] for shape in shapes])
            for skeleton, shapes in alike.items()
        }

    def _lines_of_shapes(self, shapes: Sequence[bytes], groups: Sequence[Places]) -> Lines:
        """Return the lines of shapes that have one skeleton."""
        lines = np.concatenate(groups)
        counts = [*map(len, groups)]
        starts = self.line_starts[lines]
        runs = [[match.span() for match in _RUN.finditer(shape)] for shape in shapes]
        offsets, ends = np.array(runs, dtype=np.intp).reshape(len(runs), -1, 2).T

        def column_of_lines(column: Places) -> Sizes:
            is_same = (column == column[0]).all()
            return np.intp(column[0]) if is_same else np.repeat(column, counts)

        sizes = [column_of_lines(column) for column in ends - offsets]
        return Lines(self, lines, lambda run: starts + column_of_lines(offsets[run]), sizes)

    def lines_by_skeleton(self, most: float) -> dict[bytes, Lines] | None:
        """Return the lines of each skeleton; None if there are more than ``most`` of them."""
        is_digit = self._zero_bytes == ord("0")
        follows = np.empty(len(is_digit), dtype=bool)
        follows[:1] = False
        np.logical_and(is_digit[1:], is_digit[:-1], out=follows[1:])
        skeletons = self._zero_bytes[~follows].tobytes().split(b"\n")[:-1]
        groups = _grouped(skeletons, most)
        if groups is None:
            return None
        starts = np.flatnonzero(is_digit & ~follows)
        sizes = np.flatnonzero(is_digit[:-1] & ~is_digit[1:]) + 1 - starts
        first_runs = np.searchsorted(starts, self.line_starts)

        def lines_of_skeleton(lines: Places, runs: int) -> Lines:
            first = first_runs[lines]
            columns = [sizes[first + run] for run in range(runs)]
            return Lines(self, lines, lambda run: starts[first + run], columns)

        return {
            skeleton: lines_of_skeleton(lines, skeleton.count(b"0"))
            for skeleton, lines in groups.items()
        }


def skeleton_of(line: bytes) -> bytes:
    """Return the skeleton of a line."""
    return _RUN.sub(b"0", line)


def _power(sizes: Sizes) -> Floats:
    powers: Floats = np.take(_POWERS, np.minimum(sizes, _MOST_POWER))
    return powers


def _whole_power(sizes: Sizes) -> Wholes:
    powers: Wholes = np.take(_WHOLE_POWERS, np.minimum(sizes, len(_WHOLE_POWERS) - 1))
    return powers


def _correct_long(
    values: Floats, rows: Places, total: Wholes, count: Sizes, power: Sizes
) -> Places:
    """Correct these rows by extended floats; return those that such do not show either."""
    fits = (count <= _MOST_LONG_DIGITS) & (power <= 0) & (power > -len(_LONG_POWERS))
    is_shown = np.broadcast_to(fits, len(values))[rows]
    there = rows[is_shown]
    powers = np.take(_LONG_POWERS, -np.broadcast_to(power, len(values))[there])
    exact = total[there].astype(np.longdouble) / powers
    nearest = exact.astype(np.float64)
    values[there] = nearest
    # The quotient is rounded itself: halfway between two floats it does not show which.
    off = np.abs(exact - nearest) / np.spacing(nearest)
    is_shown[is_shown] = (off != 0.5) & (off != 0.25)
    return rows[~is_shown]


class _Numbered(dict[bytes, int]):
    """The number of each line, in the order in which other ones came."""

    def __missing__(self, line: bytes) -> int:
        number = self[line] = len(self)
        return number


def _grouped(lines: Sequence[bytes], most: float) -> dict[bytes, Places] | None:
    """Return the indices of like lines; None if there are more than ``most`` of them."""
    numbered = _Numbered()
    part = 4 * int(most) + 1
    # An early end, where nearly each line is another one.
    column = np.empty(len(lines), dtype=np.intp)
    for here in (slice(part), slice(part, None)):
        numbers = map(numbered.__getitem__, lines[here])
        column[here] = np.fromiter(numbers, np.intp, len(lines[here]))
        if len(numbered) > most:
            return None
    if len(numbered) == 1:
        return {lines[0]: np.arange(len(lines))}
    order = np.argsort(column, kind="stable")
    ends = np.cumsum(np.bincount(column))[:-1]
    return dict(zip(numbered, np.split(order, ends), strict=True))
