"""Which speed of a line is training's of all devices, where the line has several.

A speed whose name is wholly known goes before others. Two that are alike in that leave it open,
and so do words of accumulation: no pattern is made of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pytest_dlperf.measure.logs.quantities import Quantity, quantities
from pytest_dlperf.measure.logs.speeds import Speed, speed_of, unit_of

#: An iteration of such a line may be one micro batch, or all that are added up.
_ACCUMULATES: Final = re.compile(r"accum|micro", re.IGNORECASE)
#: Times that are within that of an iteration beside them, or no part of it.
_WITHIN: Final = re.compile(
    r"data|load|eta|left|remain|elapsed|total|epoch|eval|val|test", re.IGNORECASE
)
_IS_TIME: Final = re.compile(r" ?(?:m?s|m?secs?|(?:milli)?seconds?)$", re.IGNORECASE)


def speeds_of(line: str, other_lines: Sequence[str]) -> list[Speed]:
    """Return the speeds of a line in their order, with a doubt where another may be meant.

    ``other_lines`` are those of other shapes that come as often.
    """
    numbers = quantities(line)
    speeds = [speed for number in numbers if (speed := speed_of(number))]
    beside = [
        speed
        for other_line in other_lines
        if other_line != line
        for number in quantities(other_line)
        if (speed := speed_of(number))
    ]
    return [
        speed
        if speed.doubt
        else replace(speed, doubt=_doubt_of(speed, line, numbers, speeds, beside))
        for speed in speeds
    ]


def _doubt_of(
    speed: Speed,
    line: str,
    numbers: Sequence[Quantity],
    speeds: Sequence[Speed],
    beside: Sequence[Speed],
) -> str:
    if speed.group != "rate" and not speed.is_of_iteration:
        part = next((number for number in numbers if _is_part(number, speed)), None)
        if part is not None:
            return f"an iteration may have the {text_of(part)!r} beside it as well"
    if speed.unit in {"", "iterations"} and _accumulates(line, numbers):
        return "an iteration may be one micro batch, or all that are accumulated"
    rival = next((rate for rate in speeds if _is_rival(speed, rate)), None)
    if rival is None and speed.foreign:
        rival = next((rate for rate in beside if _is_rival(speed, rate)), None)
    beside_it = None if rival is None else rival.number
    if beside_it is None and speed.foreign and speed.group == "rate":
        beside_it = next((number for number in numbers if _is_rate_of_else(number, speed)), None)
    if beside_it is not None:
        return (
            f"{text_of(beside_it)!r} is one as well, and nothing says which is training's of "
            "all devices"
        )
    return ""


def _is_rival(speed: Speed, other: Speed) -> bool:
    """Return whether another number may be what this one is taken for."""
    if other is speed or (other.group == "rate") != (speed.group == "rate"):
        return False
    if other.unit != speed.unit or (other.doubt and not other.foreign):
        return False
    if speed.group != "rate":
        names_both = bool(speed.number.name and other.number.name)
        return names_both and other.is_plain and other.is_of_iteration == speed.is_of_iteration
    if (other.number.name, other.number.unit) == (speed.number.name, speed.number.unit):
        return bool(not other.number.name and other.is_plain and speed.is_plain)
    if speed.foreign:
        return True
    return other.is_plain and speed.is_plain


def _is_rate_of_else(number: Quantity, speed: Speed) -> bool:
    """Return whether a number is a rate in the same unit, of something beside training."""
    unit = unit_of(number.unit) if number.unit and speed_of(number) is None else None
    return unit is not None and unit.group == "rate" and unit.unit == speed.unit


def _is_part(number: Quantity, speed: Speed) -> bool:
    """Return whether a number is the time of something that an iteration may do as well."""
    return (
        number != speed.number
        and number.is_whole
        and bool(number.name)
        and _IS_TIME.match(number.unit) is not None
        and _WITHIN.search(number.name) is None
        and (speed_of(number) is None or not _is_known(number))
    )


def _is_known(number: Quantity) -> bool:
    known = speed_of(number)
    return known is not None and not known.foreign


def _accumulates(line: str, numbers: Sequence[Quantity]) -> bool:
    """Return whether a line speaks of accumulation, but for the name of a time of its own."""
    for number in reversed(numbers):
        if _IS_TIME.match(number.unit) is not None or number.name.lower().endswith(("time", "ms")):
            line = line[: number.start - len(number.before)] + line[number.end :]
    return _ACCUMULATES.search(line) is not None


def is_time(unit: str) -> bool:
    """Return whether a unit behind a number is that of a time."""
    return bool(unit) and _IS_TIME.match(unit) is not None


def text_of(number: Quantity) -> str:
    """Return a number with its name and its unit, as printed."""
    return f"{number.before}{number.text}{number.unit}".strip()
