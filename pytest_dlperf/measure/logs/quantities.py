"""The numbers of a line of text, each with the words that name it and its unit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

#: Marks between groups of digits: a comma or a point, and those that no pattern reads.
_MARKS: Final = ".,'_\u2019\u00a0\u202f\u2009"
_NUMBER: Final = re.compile(
    rf"(?<![\w.])[+-]?\d+(?:[{_MARKS}]\d+)*(?:[eE][+-]?\d{{1,3}})?(?P<letter>[kKMGT](?![A-Za-z]))?"
)
#: A unit follows at once, or after a blank.
_UNIT: Final = re.compile(
    r"(?P<blank> ?)(?P<unit>[A-Za-z\u00b5\u03bc]{0,24}"
    r"(?:(?:/|[ _][Pp]er[ _])[A-Za-z]{1,24}){0,3})(?![A-Za-z_])"
)
#: A letter before a unit multiplies it, as in ``Mtok/s``.
MULTIPLIES: Final = re.compile(r" ?[kKMG](?=tok|sample|image|img|word)")
#: What ends the words before a number, and begins those of the next.
_APART: Final = re.compile(r"[,;|\[{}<>\t=\"']|: | - |  |\] ")
#: Between a name and its number.
_EQUALS: Final = re.compile(r"[\"']? {0,12}[:=]?\s{0,12}[\"'(\[]?$")
#: Words after a blank that are a unit, and not the name of the next number.
_IS_UNIT: Final = re.compile(
    r"/|[ _]per[ _]|(?:[mun\u00b5\u03bc]?s|[mu]?secs?|(?:milli|micro|nano)?seconds?|min|minutes?"
    r"|h|hours?)$",
    re.IGNORECASE,
)
_BEGINS_NUMBER: Final = re.compile(r"[ :=]{1,12}[+-]?\d")


@dataclass(frozen=True, slots=True)
class Quantity:
    """One number of a line."""

    text: str
    #: Words right before it, without what is between them and the number.
    name: str
    #: From the begin of the name, or of the number where it has none, to the number.
    before: str
    #: Letters right after it, with the blank before them.
    unit: str
    #: Where the number is in the line.
    start: int
    end: int
    #: Whether it is a number by itself, and no part of a date, a time of day or a fraction.
    is_whole: bool
    #: Whether a letter multiplies it, as in ``12.4k`` or ``12 ktok/s``.
    is_multiplied: bool


def quantities(line: str) -> list[Quantity]:
    """Return the numbers of a line in their order."""
    numbers: list[Quantity] = []
    begin = 0
    for match in _NUMBER.finditer(line):
        start, end = match.span()
        name, before = _name(line[max(begin, start - 120) : start])
        unit = _UNIT.match(line, end)
        text = "" if unit is None else unit[0]
        is_next = name and _BEGINS_NUMBER.match(line, end + len(text))
        if text.startswith(" ") and (is_next or not _IS_UNIT.search(text)):
            text = ""  # the name of the next number
        is_whole = (
            re.match(r"[-:]\d|/ *\d|\w", line[end:]) is None or bool(text and text[0] != " ")
        ) and re.search(r"\d[-:/.]$", line[:start]) is None
        numbers.append(
            Quantity(
                text=match[0],
                name=name,
                before=before,
                unit=text if text.strip() else "",
                start=start,
                end=end,
                is_whole=is_whole,
                is_multiplied=match["letter"] is not None or MULTIPLIES.match(text) is not None,
            )
        )
        begin = end + len(text.rstrip())
    return numbers


def _name(text: str) -> tuple[str, str]:
    """Return the name that a text ends with, and the text from there on."""
    sign = _EQUALS.search(text)
    stem = text[: sign.start()] if sign else text
    begin = max((match.end() for match in _APART.finditer(stem)), default=0)
    words = re.search(r"[A-Za-z][\w/.()\[\] \u00b5-]*$", stem[begin:])
    if words is None:
        return "", ""
    return words[0].strip(), text[begin + words.start() :]
