"""Numbers whose digits are in groups of three, as a user's pattern finds them.

A comma is the mark that all formats read. Programs of other languages have a blank, an apostrophe,
an underscore or points between the groups; a pattern may find one group of such a number alone.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.declare import NUMBER, THOUSANDS

_NUMBER: Final = re.compile(NUMBER)
_MULTIPLES: Final = {b"k": 1e3, b"K": 1e3, b"M": 1e6, b"G": 1e9}
#: The mark is the same between all groups; behind one that is no comma, a comma is a decimal one.
_GROUPED: Final = re.compile(
    rb"([+-]?[1-9]\d{0,2}(?P<mark>" + THOUSANDS + rb")\d{3}(?:(?P=mark)\d{3}){0,8})([.,]\d{1,24})?"
)
#: One point before three digits is a decimal one.
_POINTS: Final = re.compile(rb"([+-]?[1-9]\d{0,2}(?:\.\d{3}){2,8})(,\d{1,24})?")
_NO_DIGITS: Final = re.compile(rb"[^\d+-]")
_GROUP_BEHIND: Final = re.compile(THOUSANDS + rb"\d{3}(?!\d)")
_GROUP_BEFORE: Final = re.compile(rb"(?<![\d.,-])\d{1,3}(?P<mark>" + THOUSANDS + rb")$")
_FIRST_GROUP: Final = re.compile(rb"[+-]?[1-9]\d{0,2}")
#: Digits right beside a group, or decimals of its number.
_DIGITS_BEFORE: Final = re.compile(rb"\d[.,]?$")
_DIGITS_BEHIND: Final = re.compile(rb"[.,]?\d")
#: Groups of which decimals are a part; an epoch may be half over.
_SPEEDS: Final = ("rate", "seconds", "milliseconds")
_LATER_GROUP: Final = re.compile(rb"\d{3}(?!\d)")
#: What of a pattern reads another number, with a blank between it and a group.
_NUMBER_BEHIND: Final = re.compile(r"\)(?: |\\s)[+*]?(?:\\[dSw]|[\[(\d])")
_NUMBER_BEFORE: Final = re.compile(r"(?:\\[dSw]|[\])\d])(?:[+*?]|\{[\d,]+\})*(?: |\\s)[+*]?$")


def number_of(text: bytes) -> float | None:
    """Return the number that a text is, with marks of thousands or without; None if it is none.

    A ``k``, ``M`` or ``G`` behind it multiplies it.
    """
    text = text.rstrip(b",; ")
    multiple = multiple_of(text)
    if multiple > 1:
        text = text[:-1].rstrip(b" ")
    number = _number_of(text)
    return None if number is None else number * multiple


def multiple_of(text: bytes) -> float:
    """Return what the letter at the end of a number multiplies it by; 1 without one."""
    return _MULTIPLES.get(text.rstrip(b",; ")[-1:], 1.0)


def _number_of(text: bytes) -> float | None:
    if match := _NUMBER.fullmatch(text):
        return float(match[1].replace(b",", b""))
    grouped = _GROUPED.fullmatch(text) or _POINTS.fullmatch(text)
    if grouped is None:
        return None
    decimals = (grouped[grouped.lastindex or 0] if grouped[0] != grouped[1] else b"")[1:]
    return float(_NO_DIGITS.sub(b"", grouped[1]) + b"." + decimals)


def is_part(regex: str, match: re.Match[bytes], group: str) -> bool:
    """Return whether a group of a pattern found some digits of a longer number.

    A blank may be between two numbers instead: it is where the pattern reads both. So may a comma
    where the pattern has one on both sides of the group.
    """
    if _is_a_column(regex, group):
        return False
    line, (start, end) = match.string, match.span(group)
    digits = _DIGITS_BEFORE.search(line, max(0, start - 2), start)
    if digits is not None and match[group][:1].isdigit():
        return not is_of_group(match, digits.start())
    digits = _DIGITS_BEHIND.match(line, end)
    if digits is not None and group in _SPEEDS and match[group][-1:].isdigit():
        return not is_of_group(match, digits.end() - 1)
    behind = _GROUP_BEHIND.match(line, end)
    if behind is not None and _FIRST_GROUP.fullmatch(match[group]):
        is_read = line[end : end + 1] == b" " and (
            is_of_group(match, end + 1) or _reads_behind(regex, group)
        )
        if not is_read:
            return True
    before = _GROUP_BEFORE.search(line, max(0, start - 8), start)
    if before is None or not _LATER_GROUP.match(match[group]):
        return False
    return before["mark"] != b" " or not (
        is_of_group(match, before.start()) or _reads_before(regex, group)
    )


def is_of_group(match: re.Match[bytes], place: int) -> bool:
    """Return whether a place of the line is within another group."""
    return any(begin <= place < end for begin, end in map(match.span, match.groupdict()))


def _reads_behind(regex: str, group: str) -> bool:
    """Return whether a pattern names digits right behind a group."""
    depth, begin = 0, regex.index(f"(?P<{group}>")
    for place in range(begin, len(regex)):
        is_plain = regex[place - 1 : place] != "\\"
        depth += is_plain * ((regex[place] == "(") - (regex[place] == ")"))
        if depth == 0:
            return _NUMBER_BEHIND.match(regex, place) is not None
    return False


def _is_a_column(regex: str, group: str) -> bool:
    """Return whether a pattern has a group between two commas, as a table's column.

    The first column begins the line, and the last one ends it.
    """
    before, _, behind = regex.partition(f"(?P<{group}>")
    after = behind.partition(")")[2]
    begins = before == "^" or before.endswith(",")
    ends = after == "$" or (after.startswith(",") and after[1:2] not in {"?", "*"})
    return begins and ends


def _reads_before(regex: str, group: str) -> bool:
    """Return whether a pattern names digits right before a group."""
    return _NUMBER_BEFORE.search(regex[: regex.index(f"(?P<{group}>")]) is not None
