"""The patterns of a clock that a program prints itself: the time since its training began.

Only where the line says the unit of that time, and where it grows from line to line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_dlperf.core.log_pattern import LogPattern, pattern
from pytest_dlperf.measure.logs import shown_pattern
from pytest_dlperf.measure.logs.quantities import quantities
from pytest_dlperf.measure.logs.user_pattern import elapsed_of

_SECONDS: Final = r"(?:s|secs?|seconds?)"
_LONGER: Final = r"(?:min(?:ute)?s?|h(?:ou)?rs?)"
_NAME: Final = (
    r"\b(?:(?:total|wall|train|training|run|time)[ _-]?){0,2}"
    r"(?:elapsed|runtime|total[ _]time|wall[ _-]?(?:time|clock)|since[ _](?:start|begin))"
    r"(?:[ _]time)?"
)
_EQUALS: Final = r"['\"]?\s?[:=]?\s{0,8}['\"(\[]?"
_CLOCK: Final = r"(?:\d+ days?,? )?(?:\d+:)?\d+:\d\d(?:\.\d+)?"
#: Two numbers without a name may be the hours and minutes of a day.
_LONG_CLOCK: Final = r"(?:\d+ days?,? )?(?:\d+:\d+:\d\d(?:\.\d+)?|\d+:\d\d\.\d+)"
_DURATION: Final = r"(?:\d+ ?d ?)?(?:\d+ ?h ?)?(?:\d+ ?m ?)?\d+(?:\.\d+)? ?s"
_PLAIN: Final = r"\d+(?:\.\d+)?"
_ELAPSED: Final = tuple(
    re.compile(rf"(?P<before>{before})(?P<number>{number}){behind}", re.IGNORECASE)
    for before, number, behind in (
        (_NAME + _EQUALS, _CLOCK, r"(?![\d:<])"),
        (_NAME + _EQUALS, _PLAIN, rf"(?= ?(?:{_SECONDS}|{_LONGER})\b)"),
        (_NAME + _EQUALS, _DURATION, r"(?![\w/])"),
        (rf"{_NAME}(?:_{_SECONDS}| ?[(\[]{_SECONDS}[)\]]){_EQUALS}", _PLAIN, r"(?![\w:.])"),
        (r"^\W{0,3}\s{0,12}", _LONG_CLOCK, r"(?![\d:<])"),
        (r"^\W{0,3}\s{0,12}", _PLAIN, rf"(?= ?(?:{_SECONDS}|{_LONGER})\b)"),
    )
)
#: Without a name it may be the time of one step.
_UNNAMED: Final = _ELAPSED[-2:]
#: Words before the name of a time that is not all of training's.
_OF_ELSE: Final = re.compile(
    r"(?:data|io|load\w*|eval\w*|val\w*|test\w*|ckpt|checkpoint|save)[ _-]$", re.IGNORECASE
)
_LONGEST_WORD: Final = 16
_TIME_NAME: Final = re.compile(r"time|elapsed|clock|took|duration|total", re.IGNORECASE)
_NUMBER: Final = re.compile(_PLAIN)
_MINUTES: Final = re.compile(rf" ?{_LONGER}\b")


def elapsed_patterns(lines: Sequence[str]) -> Iterator[LogPattern]:
    """Yield patterns of a step and the time since the begin."""
    for finder in _ELAPSED:
        match = _time_in(lines[-1], finder)
        if match is None or not _grows(lines, finder):
            continue
        number = match["number"]
        days = r"(?:\d+ days?,? )?" if "day" in number else ""
        shape = days + (r"[\d:]+" if ":" in number else r"\d+") + r"(?:\.\d+)?"
        shape = _DURATION if number.endswith("s") else shape
        # A minute or an hour is read where the group has the word.
        unit = _MINUTES.match(lines[-1], match.end())
        shape += "" if unit is None else shown_pattern.literal_pattern(unit[0])
        begin = "^" if match.start() == 0 and not match["before"].strip(" [(+") else ""
        regex = f"{begin}{shown_pattern.literal_pattern(match['before'])}(?P<elapsed>{shape})"
        for step in shown_pattern.steps_in(lines):
            parts = [(step.place, step.regex), (match.start(), regex)]
            declared = pattern(shown_pattern.in_order(lines[-1], parts))
            read = re.search(declared.regex, lines[-1])
            # Not the time of something else with the same name
            if read is not None and read.start("elapsed") == match.start("number"):
                yield declared


def _time_in(line: str, finder: re.Pattern[str]) -> re.Match[str] | None:
    """Return the first time of a line that its name does not say to be of something else."""
    for match in finder.finditer(line):
        begin = match.start()
        if not _OF_ELSE.search(line, max(0, begin - _LONGEST_WORD), begin):
            return match
    return None


def _grows(lines: Sequence[str], finder: re.Pattern[str]) -> bool:
    matches = [match for line in lines if (match := _time_in(line, finder)) is not None]
    times = [elapsed_of(match["number"].encode()) or 0.0 for match in matches]
    return (
        len(times) >= shown_pattern.MOSTLY * len(lines)
        and shown_pattern.mostly_rises(times, strictly=False)
        and times[-1] > (shown_pattern.GROWS if finder in _UNNAMED else 1) * times[0]
    )


def grown_time(lines: Sequence[str]) -> str:
    """Return a number without a unit that grows as the time since the begin does; or nothing."""
    if not any(shown_pattern.steps_in(lines)):
        return ""
    for number in quantities(lines[-1]):
        is_first = number.start == 0 and "." in number.text
        is_time = is_first or _TIME_NAME.search(number.name) is not None
        if number.unit or not is_time or not number.is_whole:
            continue
        values = [
            float(same.text)
            for line in lines
            for same in quantities(line)
            if same.name == number.name and _NUMBER.fullmatch(same.text)
        ]
        if len(values) > 2 and shown_pattern.mostly_rises(values, strictly=True):
            return f"{number.before}{number.text}"
    return ""
