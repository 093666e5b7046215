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
_EQUALS: Final = re.compile(r"[\"']? {0,12}[:=~]?\s{0,12}[\"'(\[]?$")
#: Words after a blank that are a unit, and not the name of the next number.
_IS_UNIT: Final = re.compile(
    r"/|[ _]per[ _]|(?:[mun\u00b5\u03bc]?s|[mu]?secs?|(?:milli|micro|nano)?seconds?|min|minutes?"
    r"|h|hours?)$",
    re.IGNORECASE,
)
_BEGINS_NUMBER: Final = re.compile(r"(?P<sign>[ :=~]{1,12})[+-]?\d")
#: Words behind a unit that qualify it, up to another number: ``samples/s (avg): 12``.
_QUALIFIES: Final = re.compile(
    r"(?: ?(?:[(\[{<][^()\[\]{}<>\d]{1,24}[)\]}>]"
    r"|(?:avg|average|mean|overall|global|total|now|current"
    r"|cur|last|smoothed|ema)\b)){1,3}[ :=~]{1,12}[+-]?\d",
    re.IGNORECASE,
)
#: What qualifies a name behind it: ``samples/s [global]: 12``, ``samples/s, total: 12``.
_QUALIFIER: Final = re.compile(
    r" ?(?:\[[^\[\]\d]{1,24}\]|\{[^{}\d]{1,24}\}|<[^<>\d]{1,24}>"
    r"|(?:(?<=/s)|(?<=/sec)|(?<=second))(?:,| -|:)"
    r" (?:global|total|all|overall|local|avg|average|mean|now|current|cur))$",
    re.IGNORECASE,
)
#: Names of numbers that no unit of a speed belongs to, before a blank and a unit.
_COUNTS: Final = re.compile(
    r"(?:step|iter(?:ation)?|epoch|batch|update|loss|acc|accuracy|lr|ppl|(?:grad_?)?norm|gnorm|reward"
    r"|score)s?$",
    re.IGNORECASE,
)
_SPEED_NAME: Final = re.compile(
    r"throughput|speed|rate|time|took|cost|latency|duration|elapsed|/ ?s|per", re.IGNORECASE
)


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
    #: Text behind the unit, until something else begins.
    after: str = ""
    #: Whether the unit behind it may be that of the next number.
    has_next_unit: bool = False


def quantities(line: str) -> list[Quantity]:
    """Return the numbers of a line in their order."""
    numbers: list[Quantity] = []
    begin = 0
    for match in _NUMBER.finditer(line):
        start, end = match.span()
        name, before = _name(line[max(begin, start - 120) : start])
        unit = _UNIT.match(line, end)
        text = "" if unit is None else unit[0]
        behind = end + len(text)
        begins = _BEGINS_NUMBER.match(line, behind)
        qualified = _QUALIFIES.match(line, behind)
        is_next = begins is not None and bool(name or begins["sign"].strip())
        is_shared = False
        if text.startswith(" ") and qualified is not None and not _has_unit(line, qualified.end()):
            is_next = is_next or _COUNTS.search(name) is not None
            is_shared = not is_next and _SPEED_NAME.search(name) is None
        if not name and begins is not None and _has_unit(line, begins.end()):
            is_next = False
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
                after=_APART.split(line[end + len(text) : end + len(text) + 80])[0],
                has_next_unit=bool(text.strip()) and is_shared,
            )
        )
        begin = end + len(text.rstrip())
    return numbers


def _has_unit(line: str, at: int) -> bool:
    """Return whether a number whose first digits end at a place has a unit behind it."""
    digits = re.compile(r"[\d.,]{0,24}").match(line, at)
    unit = _UNIT.match(line, at if digits is None else digits.end())
    return unit is not None and bool(unit["unit"]) and _IS_UNIT.search(unit[0]) is not None


def _name(text: str) -> tuple[str, str]:
    """Return the name that a text ends with, and the text from there on."""
    sign = _EQUALS.search(text)
    stem = text[: sign.start()] if sign else text
    qualifier = _QUALIFIER.search(stem)
    for end in (len(stem) if qualifier is None else qualifier.start(), len(stem)):
        begin = max((match.end() for match in _APART.finditer(stem[:end])), default=0)
        words = re.search(r"[A-Za-z][\w/.()\[\] \u00b5-]*$", stem[begin:end])
        if words is not None:
            begin += words.start()
            return stem[begin:].strip(), text[begin:]
    return "", ""
