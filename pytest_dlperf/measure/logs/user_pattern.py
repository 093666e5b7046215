"""Make a format of a user's ``--pattern``, and refuse patterns that take too long on a line.

Python's patterns backtrack if a line nearly matches: time may grow with a high power of the line's
length, or faster. The pattern alone does not show it, so of a line of a new shape first a part is
read, and then more and more of it while that is quick.
"""

from __future__ import annotations

import math
import re
import time
from typing import Final

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.log_pattern import LogPattern
from pytest_dlperf.measure.logs.declare import NOT_FINITE, NUMBER, Format, LogRecord
from pytest_dlperf.measure.logs.records import DIGITS_TO_0
from pytest_dlperf.measure.logs.registry import SAMPLES

#: More processor time than this for one line, or a part of it, is too much.
_SECONDS: Final = 0.25
#: So many shapes of lines are tried out; then the pattern is known well enough.
_SHAPES: Final = 4096


def of_pattern(declared: LogPattern) -> Format:
    """Return the format that a user's pattern declares.

    Its parser raises ``UsageError`` where the pattern takes too long on a line of the log.
    """
    compiled = re.compile(declared.regex.encode())
    groups = set(compiled.groupindex)
    number = re.compile(NUMBER)
    not_finite = re.compile(rb"(?<![A-Za-z0-9_])" + NOT_FINITE).search
    search = _Bounded(compiled, declared.regex)

    def value(match: re.Match[bytes], group: str) -> float | None:
        text = match[group] if group in groups else None
        found = number.fullmatch(text) if text is not None else None
        return float(found[1].replace(b",", b"")) if found else None

    def seconds(match: re.Match[bytes], group: str, in_milliseconds: str) -> float | None:
        found = value(match, in_milliseconds)
        return value(match, group) if found is None else found / 1000

    def lost(match: re.Match[bytes]) -> bool:
        # Other text may be around it, as in tensor(nan, device='cuda:0').
        text = match["loss"] if "loss" in groups else None
        return text is not None and not_finite(text) is not None

    def parse(line: bytes) -> LogRecord | None:
        match = search(line)
        step = value(match, "step") if match else None
        if match is None or step is None or not 0 <= step < 1e15:
            return None
        epoch = value(match, "epoch")
        return LogRecord(
            step=int(step),
            epoch=None if epoch is None else int(epoch),
            rate=value(match, "rate"),
            seconds=seconds(match, "seconds", "milliseconds"),
            data_wait_seconds=seconds(match, "data", "data_milliseconds"),
            loss=math.inf if lost(match) else value(match, "loss"),
        )

    return Format(
        name="pattern",
        scope=declared.scope,
        averaging=declared.averaging,
        unit=declared.unit or SAMPLES,
        anchors=(b"\n",),
        parse=parse,
    )


class _Bounded:
    """A search that measures its time, and raises an error if it takes too long."""

    def __init__(self, compiled: re.Pattern[bytes], regex: str) -> None:
        self._search = compiled.search
        self._regex = regex
        self._shapes: set[bytes] = set()

    def __call__(self, line: bytes) -> re.Match[bytes] | None:
        """Return the match; raise ``UsageError`` where the pattern takes too long."""
        if len(self._shapes) < _SHAPES:
            shape = line.translate(DIGITS_TO_0)
            if shape not in self._shapes:
                self._shapes.add(shape)
                self._try_out(line)
        return self._timed(line)

    def _try_out(self, line: bytes) -> None:
        """Read more and more of a line, by steps so small that time grows little with each."""
        size = 4
        while size < len(line):
            self._timed(line[:size])
            size += 1 if size < 64 else size // 20

    def _timed(self, line: bytes) -> re.Match[bytes] | None:
        # Of this thread: others may have the processor meanwhile.
        begin_s = time.thread_time()
        match = self._search(line)
        if time.thread_time() - begin_s > _SECONDS:
            raise UsageError(
                f"pattern {self._regex!r} takes too long on {len(line)} bytes of the line "
                f"{line[:80]!r}: it has too many open repetitions (.* or +) after or within one "
                "another; leave some out, or say what is between, as in [^,]* or \\d+"
            )
        return match
