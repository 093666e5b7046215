"""The clock of a log: the time stamps of its lines, in seconds of which only differences count.

A log has one clock: the first that is seen. Without a year, or without a date, it starts over, and
``unwrapped`` makes it go on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Places = NDArray[np.intp]

_DAY: Final = 86400.0
_TIME: Final = (
    rb"(?P<hour>[01]\d|2[0-3]|\d(?=:\d\d:\d\d ?[AaPp][Mm]\b)):(?P<minute>[0-5]\d)"
    rb":(?P<second>[0-5]\d|60)(?:[.,](?P<fraction>\d{1,9}))?(?!\d|:)"
    rb"(?: ?(?P<half>[AaPp])[Mm]\b)?"
)
#: Seconds, milli-, micro- or nanoseconds since 1970, from 2014 to 2033: other numbers of as many
#: digits count something.
_UNIX: Final = (
    rb"(?P<unix>1[4-9]\d{8})(?P<parts>\d{3}|\d{6}|\d{9})?(?:[.,](?P<fraction>\d{1,9}))?"
    rb"(?![\w.,:/-]\d)"
    rb"(?!\d| ?[kKMGT]?(?:tokens|toks|samples|words|sequences|seqs|images|imgs|params|bytes|steps"
    rb"|iters|frames|examples|elements)\b)"
)
#: Words right before a time that is not that of the line: when something ends, or a date of data.
_NOT_OF_LINE: Final = re.compile(
    rb"(?<![A-Za-z])(?:eta|etc|eft|(?:est|estim|expect|predict|project)[a-z]{0,6}|finish(?:es|ed|ing)?"
    rb"|completes?|completed|completion|done|ends?|ending|until|till|due|deadline|remaining|left|arrival|ready"
    rb"|start(?:s|ed|ing)?|since|begins?|began|created|modified|saved|from|to|by"
    rb"|data|dataset|dates?_?range|samples?|sequence|window|batch|period|range|interval|forecast"
    rb"|horizon|target|input|split|file|shard|snapshot|news|event|observed|observations?)"
    rb"(?: (?:at|on|by|to|of|is|date|time|in))?[^A-Za-z0-9]{0,4}$",
    re.IGNORECASE,
)
_MONTHS: Final = (b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec").split()
#: Days of a year without 29 February before each month.
_BEFORE: Final = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
#: A stamp is within so many bytes of a line's begin.
_HEAD: Final = 200
#: So many bytes before a stamp say what it is the time of.
_WORDS: Final = 32
#: A log whose first records have none has no clock.
_PATIENCE: Final = 64
#: So many records of a block are looked at, in runs of records that follow each other.
_RUNS: Final = 8
_RUN: Final = 32
#: Dates beyond so many do not decide whether the day or the month comes first.
_MOST_DATES: Final = 1024
#: A clock that falls by more has started over.
_FALL: Final = _DAY / 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Style:
    """How time is written."""

    #: In words, for a sentence.
    name: str
    #: Finds a stamp in the head of a line; its groups are parts of a date.
    pattern: re.Pattern[bytes]
    #: After so many seconds it starts over; 0: never.
    period: float = 0.0
    #: Elsewhere the day is written before the month.
    either_first: bool = False


def _style(name: str, pattern: bytes, period: float = 0.0, *, either_first: bool = False) -> Style:
    return Style(name=name, pattern=re.compile(pattern), period=period, either_first=either_first)


#: Looked for in this order.
STYLES: Final = (
    _style(
        "date and time",
        rb"(?<!\d)(?P<year>\d{4})[-/](?P<month>\d\d)[-/](?P<day>\d\d)[ T,]" + _TIME,
    ),
    # https://github.com/mlcommons/logging/blob/master/mlperf_logging/mllog/mllog.py
    _style("time_ms of MLPerf", rb'"time_ms": (?P<milliseconds>\d{10,16})\b'),
    # rich's ``[%x %X]``, whose month comes first where nobody set another locale
    _style(
        "date and time",
        rb"(?<!\d)(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>\d{4}|\d\d)[ ,]{1,2}" + _TIME,
        either_first=True,
    ),
    _style(
        "month and day without a year",
        rb"(?<![\d/-])(?P<month>\d\d)[-/](?P<day>\d\d) " + _TIME,
        365 * _DAY,
        either_first=True,
    ),
    # glog and absl
    _style(
        "month and day without a year",
        rb"\b[IWEF](?P<month>\d\d)(?P<day>\d\d) " + _TIME,
        365 * _DAY,
    ),
    _style(
        "month and day without a year",
        rb"\b(?P<name>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) (?P<day>[ \d]\d) " + _TIME,
        365 * _DAY,
    ),
    # Where a line begins, as of ``ts %.s``, or behind a name; ROS has the level before it.
    _style(
        "Unix time",
        rb"(?:^\W{0,3}(?:[A-Z]{4,8}\W{1,4})?|(?<![\w.])['\"]?_?(?:timestamp|ts|time|unix_?time|wall_?time"
        rb"|epoch_?time)(?:_(?:ms|us|ns|s))?['\"]?(?: ?[=:] ?| )['\"]?)" + _UNIX,
    ),
    # Only where a line begins: later it is as often what is left or was taken.
    _style(
        "time of day without a date",
        rb"^\W{0,3}(?:[A-Z]{4,8}\W{1,4})?" + _TIME + rb"(?!<)",
        _DAY,
    ),
)

#: Not one of them: a program prints it, and a pattern reads it.
ELAPSED: Final = _style("time since the begin", rb"(?!)")


class Clock:
    """Reads the stamps of one log."""

    def __init__(self) -> None:
        #: The log's, once it is seen.
        self.style: Style | None = None
        #: Seconds to which it is written.
        self.resolution = 1.0
        self._without = 0
        #: Lines have none of their own, but what wrote them down has put one before each.
        self._is_before = False
        #: Days of the dates so far, as they were read, and those if the day comes first; None
        #: where it cannot.
        self._day_first: dict[int, int | None] = {}

    def sample(self, count: int) -> Places:
        """Return which of the next so many records show the time: some runs of them, or none."""
        if self.style is None and self._without >= _PATIENCE:
            return np.empty(0, dtype=np.intp)
        if count <= _RUNS * _RUN:
            return np.arange(count)
        starts = np.linspace(0, count - _RUN, _RUNS).astype(np.intp)
        return np.unique(starts[:, np.newaxis] + np.arange(_RUN))

    def read(self, line: bytes, before: bytes = b"") -> float | None:
        """Return the seconds of a line's stamp; None if it has none of the log's style.

        ``before`` is what a launcher or a container put before the line: its time is the log's
        where lines have no other.
        """
        if self.style is None:
            return self._first(line, before)
        match = _stamp_in(before if self._is_before else line, self.style)
        return None if match is None else self._seconds(match)

    def elapsed(self, seconds: float | None, resolution: float) -> float | None:
        """Take in the time since training began as the clock of a line, and return it."""
        if seconds is not None:
            self.style, self.resolution = ELAPSED, resolution
        return seconds

    def _seconds(self, match: re.Match[bytes]) -> float | None:
        """Return the seconds of a stamp, whose month comes first where it can."""
        seconds = _seconds(match)
        if seconds is None or self.style is None or not self.style.either_first:
            return seconds
        day = int(seconds // _DAY)
        if day not in self._day_first and len(self._day_first) < _MOST_DATES:
            parts = match.groupdict()
            swapped = {**parts, "month": parts["day"], "day": parts["month"]}
            self._day_first[day] = _days(swapped) if int(parts["day"]) <= 12 else None
        return seconds

    def _decided(self, at_s: Floats) -> Floats:
        """Return stamps with the day before the month, if that is how the log's dates are.

        They are if one of them can be read in no other way, or if they are further apart else.
        """
        pairs = self._day_first
        days = [day for day in pairs.values() if day is not None]
        if len(days) < len(pairs) or len(days) < 2:
            return at_s
        if max(days) - min(days) >= max(pairs) - min(pairs):
            return at_s
        is_stamped = ~np.isnan(at_s)
        day = np.floor(at_s[is_stamped] / _DAY)
        each, places = np.unique(day, return_inverse=True)
        decided = np.array([pairs.get(int(as_read)) or as_read for as_read in each])
        moved = at_s.copy()
        moved[is_stamped] += (decided[places] - day) * _DAY
        return moved

    def _first(self, line: bytes, before: bytes) -> float | None:
        if self._without >= _PATIENCE:
            return None
        for is_before, text in ((False, line), (True, before)):
            stamps = [
                (match, style)
                for style in STYLES
                if text and (match := _stamp_in(text, style)) and _seconds(match) is not None
            ]
            if stamps:
                # Later in a line are dates of other things; of one place the first style is best.
                match, style = min(stamps, key=lambda stamp: stamp[0].start())
                self.style, self._is_before = style, is_before
                self.resolution = _resolution(match)
                return self._seconds(match)
        self._without += 1
        return None

    def unwrapped(self, at_s: Floats) -> Floats:
        """Return stamps in their order as those of a clock that does not start over."""
        at_s = self._decided(at_s)
        known = np.flatnonzero(~np.isnan(at_s))
        if self.style is None or not self.style.period or len(known) < 2:
            return at_s
        steps = np.diff(at_s[known])
        # A clock without a year has no 29 February either: the next day has its place.
        later = np.where(steps < -2 * _DAY, self.style.period, _DAY)
        turns = np.cumsum(np.where(steps < -_FALL, later, 0.0))
        going_on = at_s.copy()
        going_on[known[1:]] += turns
        return going_on


def _stamp_in(text: bytes, style: Style) -> re.Match[bytes] | None:
    """Return the first stamp of a style that is the time of a line; None if there is none."""
    for match in style.pattern.finditer(text[:_HEAD]):
        if not _NOT_OF_LINE.search(text, max(0, match.start() - _WORDS), match.start()):
            return match
    return None


def stamp(line: bytes) -> float | None:
    """Return the seconds of a line's stamp of any style; None if it has none."""
    return Clock().read(line)


def _seconds(match: re.Match[bytes]) -> float | None:
    parts = match.groupdict()
    if "milliseconds" in parts:
        return int(parts["milliseconds"]) / 1000
    if "unix" in parts:
        below = parts["parts"] or parts["fraction"] or b"0"
        return int(parts["unix"]) + float(b"0." + below)
    days = _days(parts)
    if days is None:
        return None
    fraction = parts["fraction"]
    hour = int(parts["hour"])
    if parts["half"]:
        hour = hour % 12 + 12 * (parts["half"] in b"Pp")
    clock = hour * 3600 + int(parts["minute"]) * 60 + int(parts["second"])
    return days * _DAY + clock + (float(b"0." + fraction) if fraction else 0.0)


def _days(parts: dict[str, bytes]) -> int | None:
    """Return days since some day; None if there is no such day."""
    if "day" not in parts:
        return 0
    day = int(parts["day"])
    month = _MONTHS.index(parts["name"]) + 1 if "name" in parts else int(parts["month"])
    if month > 12 and day <= 12:
        month, day = day, month
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        return None
    days = _BEFORE[month - 1] + day
    if "year" not in parts:
        return days
    year = int(parts["year"])
    # The 29 Februaries until the end of the last February
    leaps = year if month > 2 else year - 1
    return days + 365 * year + leaps // 4 - leaps // 100 + leaps // 400


def _resolution(match: re.Match[bytes]) -> float:
    parts = match.groupdict()
    if "milliseconds" in parts:
        return 0.001
    if parts.get("parts"):
        return 10.0 ** -len(parts["parts"])
    return 10.0 ** -len(parts["fraction"] or b"")
