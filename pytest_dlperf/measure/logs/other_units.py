"""Lines that are like a record of a user's pattern, and have its speed in another unit.

A bar turns from ``it/s`` to ``s/it``, a rate from ``samples/s`` to ``Ksamples/s``: a pattern that
has the unit in it finds nothing there. Such a line begins as those do that it reads, up to the
number. Where a program prints both units for each step, one of them is enough.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.beside_groups import Contradictions, contradiction

#: So many begins of lines are learnt, from so many lines that the pattern reads.
_MOST_HEADS: Final = 4
_MOST_LINES: Final = 256
#: A begin that is longer is not learnt.
_HEAD_BYTES: Final = 400
SPEEDS: Final = ("rate", "seconds", "milliseconds")
_NUMBER: Final = rb"[+-]?\d+(?:[.,:]\d+)*(?:[eE][+-]?\d{1,3})?"
#: What differs from line to line: numbers, what is drawn of a bar, and blanks.
_PARTS: Final = re.compile(rb"(?<=%)\|[^|\n]{0,400}\||" + _NUMBER + rb"| +")
#: Digits of one number are never tried as those of two: it would take a power of their count.
_NO_DIGIT_BEFORE: Final = rb"(?<!\d)(?<!\d[.,:])"
_ANY_NUMBER: Final = (
    rb"(?:" + _NO_DIGIT_BEFORE + rb"[+-]?|[+-])\d+(?:[.,:]\d+)*\.?(?:[eE][+-]?\d{1,3})?"
)
_ANY_BLANKS: Final = rb"(?: +|" + _NO_DIGIT_BEFORE + rb"|(?![\d+-]))"
_LETTER: Final = re.compile(rb"[A-Za-z]")
#: A unit in the name of a number may be another one as well.
_UNIT_NAME: Final = re.compile(
    rb"(?:[A-Za-z_/]{1,24}(?:/|[ _]per[ _])[A-Za-z_/]{1,24}"
    rb"|(?<=[A-Za-z][_(\[])(?:m?s|m?secs?|(?:milli)?seconds?))(?=[^A-Za-z]{0,8}$)"
)
_UNIT_BEHIND: Final = re.compile(rb" ?[A-Za-z]{1,24}/[A-Za-z]| ?m?s(?![A-Za-z])")
_WORDS_BEFORE: Final = re.compile(rb"[A-Za-z_/]{1,24}[^A-Za-z0-9\n]{0,4}$")
_ANY_NAME: Final = rb"[A-Za-z][A-Za-z_/ ]{0,47}"


#: The step of a line that has none of its own.
_NO_STEP: Final = -1


class OtherUnits:
    """Finds lines of one log that a pattern does not read since their unit is another one."""

    def __init__(self, contradictions: Contradictions, unit: str) -> None:
        self._contradictions = contradictions
        self._unit = unit
        self._heads: list[tuple[str, re.Pattern[bytes]]] = []
        self._lines = 0
        #: The step of the last line that was read.
        self._step: int | None = None
        #: That of a line in another unit, after which none was read so far.
        self._pending: int | None = None

    def read(self, match: re.Match[bytes], step: int | None) -> bool:
        """Take in a line that the pattern reads; return whether one before it had another unit."""
        if self._lines < _MOST_LINES and len(self._heads) < _MOST_HEADS:
            self._lines += 1
            self._learn(match)
        # A line without a step may be of the same step as the one before.
        was_unread = self._pending not in {None, _NO_STEP, step}
        self._step, self._pending = step, None
        return was_unread

    def unread(self, line: bytes) -> int | None:
        """Take in a line that the pattern does not read.

        Return the step of an earlier line in another unit, once it is known that no line of the
        step was read, or -1 for one without a step; None if there is none.
        """
        for group, head in self._heads:
            match = head.match(line)
            if match is None:
                continue
            has_step = "step" in match.groupdict()
            step = int(match["step"]) if has_step else _NO_STEP
            cause = contradiction(match, group, self._unit)
            if step == self._step or not self._contradictions.finds(match, group, cause):
                return None
            before, self._pending = self._pending, step
            return before if before is not None and (before != step or not has_step) else None
        return None

    @property
    def pending(self) -> int | None:
        """The step of a last line in another unit, of which no line was read; None: there is none.

        A line without a step may be of the same step as one that was read.
        """
        return None if self._pending == _NO_STEP else self._pending

    def _learn(self, match: re.Match[bytes]) -> None:
        """Learn how a line begins, up to its speed, or to a step behind that."""
        groups = match.groupdict()
        group = next((name for name in SPEEDS if groups.get(name)), None)
        if group is None:
            return
        line, (end, speed_ends) = match.string, match.span(group)
        has_letter = _LETTER.search(line, 0, end) or _UNIT_BEHIND.match(line, speed_ends)
        begin, behind = match.span("step") if groups.get("step") else (0, 0)
        if has_letter is None or max(end, begin) > _HEAD_BYTES:
            return
        if any(name == group and head.match(line) for name, head in self._heads):
            return
        number = rb"(?P<" + group.encode() + rb">\d[\d.,]*)(?<![.,])"
        step = rb"(?P<step>\d{1,15})"
        if behind > end:
            words = _WORDS_BEFORE.search(line, speed_ends, begin)
            between = b"" if words is None else _general(words[0])
            regex = _named(line[:end]) + number + rb"[^\n]{0,80}?" + between + step
        elif behind:
            regex = _general(line[:begin]) + step + _named(line[behind:end]) + number
        else:
            regex = _named(line[:end]) + number
        self._heads.append((group, re.compile(regex)))


def _named(text: bytes) -> bytes:
    """Return a pattern of a text whose last words name a number."""
    name = _UNIT_NAME.search(text)
    if name is None:
        return _general(text)
    return _general(text[: name.start()]) + _ANY_NAME + _general(text[name.end() :])


def _general(text: bytes) -> bytes:
    """Return a pattern of a text that may have other numbers."""
    regex, at = b"", 0
    for part in _PARTS.finditer(text):
        regex += re.escape(text[at : part.start()])
        if part[0].startswith(b" "):
            regex += _ANY_BLANKS
        else:
            regex += rb"\|[^|]*\|" if part[0].startswith(b"|") else _ANY_NUMBER
        at = part.end()
    return regex + re.escape(text[at:])
