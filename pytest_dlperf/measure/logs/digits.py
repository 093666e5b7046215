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
from numpy.lib.stride_tricks import sliding_window_view

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Places = NDArray[np.intp]
    Floats = NDArray[np.float64]
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
_POWERS_DOWN: Final = _POWERS[_MOST_DIGITS - 1 :: -1].copy()
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

    def __init__(self, text: Text, lines: Places, starts: Places, sizes: Sequence[Sizes]) -> None:
        """``lines`` are their indices in the text, ``starts`` and ``sizes`` those of their runs.

        ``starts`` has a row for each line, ``sizes`` an entry for each run: one number where all
        lines have as many digits there.
        """
        self.lines = lines
        self.sizes = sizes
        self._text = text
        self._starts = starts

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.lines)

    def values(self, number: Number) -> Floats:
        """Return a number of each line as float() reads it, without its sign.

        NaN for one with commas that begins with a 0.
        """
        values = self._values(number)
        if len(number.whole) > 1:
            begins = self._text.before(self._starts[:, number.whole[0]] + 1, 1)[:, 0]
            values = np.where(begins == ord("0"), np.nan, values)
        return values

    def _values(self, number: Number) -> Floats:
        sizes = self.sizes
        total, count = self._whole(number.whole[0]), sizes[number.whole[0]]
        for run in number.whole[1:]:
            total = total * _power(sizes[run]) + self._whole(run)
            count = count + sizes[run]
        if number.decimals is None and number.exponent is None:
            return self._corrected(total, count > _MOST_DIGITS, number)
        power: Sizes = np.intp(0)
        if number.decimals is not None:
            total = total * _power(sizes[number.decimals]) + self._whole(number.decimals)
            count, power = count + sizes[number.decimals], -sizes[number.decimals]
        if number.exponent is not None:
            exponent = self._whole(number.exponent).astype(np.intp)
            power = power + number.exponent_sign * exponent
        # A quotient or a product of two numbers that floats hold exactly rounds as float() does.
        scale = _power(np.abs(power))
        divided: Floats = total / scale
        has_exponent = number.exponent is not None
        values = np.where(power < 0, divided, total * scale) if has_exponent else divided
        inexact = (count > _MOST_DIGITS) | (np.abs(power) > _MOST_POWER)
        return self._corrected(values, inexact, number)

    def _whole(self, run: int) -> Floats:
        """Return runs of digits as whole numbers; exact up to ``_MOST_DIGITS`` digits."""
        sizes = self.sizes[run]
        ends = self._starts[:, run] + sizes
        if sizes.ndim == 0:
            return self._digits(ends, min(int(sizes), _MOST_DIGITS))
        width = min(int(sizes.max()), _MOST_DIGITS)
        return self._digits(ends, width, sizes if sizes.min() < width else None)

    def _corrected(
        self, values: Floats, inexact: NDArray[np.bool_] | np.bool_, number: Number
    ) -> Floats:
        """Return the values, those that are inexact as float() itself reads them."""
        if not inexact.any():
            return values
        rows = np.flatnonzero(np.broadcast_to(inexact, len(self)))
        if len(number.whole) == 1 and number.exponent is None and number.decimals is not None:
            rows = self._correct_long(values, rows, number.whole[0], number.decimals)
        parts = (number.exponent, number.decimals, number.whole[-1])
        last = next(part for part in parts if part is not None)
        begins = self._starts[rows, number.whole[0]]
        ends = (self._starts[:, last] + self.sizes[last])[rows]
        values[rows] = [
            float(self._text.text[begin:end].replace(b",", b""))
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        ]
        return values

    def _correct_long(self, values: Floats, rows: Places, whole: int, decimals: int) -> Places:
        """Correct these rows by extended floats; return those that such do not show either."""
        sizes = np.broadcast_to(self.sizes[decimals], len(self))[rows]
        whole_sizes = np.broadcast_to(self.sizes[whole], len(self))[rows]
        fits = (sizes + whole_sizes <= _MOST_LONG_DIGITS) & (whole_sizes <= _MOST_DIGITS)
        there, sizes = rows[fits], sizes[fits]
        if not len(there):
            return rows
        ends = self._starts[there, decimals] + sizes
        low = self._digits(ends, _MOST_DIGITS, np.minimum(sizes, _MOST_DIGITS))
        # The digits before the last 15
        long = np.maximum(sizes - _MOST_DIGITS, 0)
        high = self._digits(np.maximum(ends - _MOST_DIGITS, 0), 4, long)
        total = self._whole(whole)[there] * _LONG_POWERS[sizes]
        total += high * _LONG_POWERS[_MOST_DIGITS] + low
        exact = total / _LONG_POWERS[sizes]
        nearest = exact.astype(np.float64)
        # The quotient is rounded itself: halfway between two floats it does not show which.
        off = np.abs(exact - nearest) / np.spacing(nearest)
        is_shown = (off != 0.5) & (off != 0.25)
        values[there[is_shown]] = nearest[is_shown]
        return np.concatenate([rows[~fits], there[~is_shown]])

    def _digits(self, ends: Places, width: int, sizes: Sizes | None = None) -> Floats:
        """Return the last digits before each place as whole numbers; ``sizes``: only so many."""
        digits = self._text.before(ends, width) - np.uint8(ord("0"))
        if sizes is not None:
            digits *= np.arange(width) >= width - np.reshape(sizes, (-1, 1))
        # Sums of whole numbers below 2**53 are exact.
        whole: Floats = digits.astype(np.float64) @ _POWERS_DOWN[-width:]
        return whole


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
        # So that as many digits as are read at once come before any place.
        margin = np.zeros(_MOST_DIGITS, dtype=np.uint8)
        self._data = np.concatenate([margin, np.frombuffer(text, dtype=np.uint8)])
        self._windows: dict[int, Bytes] = {}

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self.line_ends)

    def line(self, index: int) -> bytes:
        """Return a line with its end."""
        return self.text[self.line_starts[index] : self.line_ends[index] + 1]

    def before(self, ends: Places, width: int) -> Bytes:
        """Return so many bytes before each place, in a row."""
        if width not in self._windows:
            self._windows[width] = sliding_window_view(self._data, width)
        return self._windows[width][ends + (_MOST_DIGITS - width)]

    def lines_by_shape(self, most: float) -> dict[bytes, Lines] | None:
        """Return the lines by what is left of them with each digit made 0.

        Such lines have their numbers at the same places. None if there are more than ``most`` of
        such shapes: then lines of one skeleton are looked for at less cost.
        """
        # An early end, where nearly each line is another one.
        part = 4 * int(most) + 1
        if len({*self._zeros.split(b"\n", part)[:part]}) > most:
            return None
        groups = _grouped(self._zeros.split(b"\n")[:-1], most)
        if groups is None:
            return None
        lines_of_shape = {}
        for shape, lines in groups.items():
            spans = [match.span() for match in _RUN.finditer(shape)]
            offsets = np.array([begin for begin, _ in spans], dtype=np.intp)
            starts = self.line_starts[lines][:, np.newaxis] + offsets
            sizes = [np.intp(end - begin) for begin, end in spans]
            lines_of_shape[shape] = Lines(self, lines, starts, sizes)
        return lines_of_shape

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
        lines_of_skeleton = {}
        for skeleton, lines in groups.items():
            runs = first_runs[lines][:, np.newaxis] + np.arange(skeleton.count(b"0"))
            lines_of_skeleton[skeleton] = Lines(self, lines, starts[runs], [*sizes[runs].T])
        return lines_of_skeleton


def skeleton_of(line: bytes) -> bytes:
    """Return the skeleton of a line, or of its shape."""
    return _RUN.sub(b"0", line)


def _power(sizes: Sizes) -> Floats:
    powers: Floats = np.take(_POWERS, np.minimum(sizes, _MOST_POWER))
    return powers


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
