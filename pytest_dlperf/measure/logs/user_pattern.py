"""Make a format of a user's ``--pattern``, and refuse patterns that take too long on a line.

Python's patterns backtrack if a line nearly matches: time may grow with a high power of the line's
length, or faster. The pattern alone does not show it, so a timer ends a search. Python looks for
signals within one, and calls their handlers in the main thread: a format is used there alone.
"""

from __future__ import annotations

import math
import re
import signal
import time
from typing import Final

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.log_pattern import LogPattern
from pytest_dlperf.measure.logs.declare import NOT_FINITE, NUMBER, Format, LogRecord
from pytest_dlperf.measure.logs.registry import SAMPLES

#: More processor time than this for one line is too much.
_LINE_SECONDS: Final = 0.25
#: So is more than this for a log in all, beside what an ordinary pattern may take for a byte.
_LOG_SECONDS: Final = 1.0
_BYTE_SECONDS: Final = 5e-6


def format_of_pattern(declared: LogPattern) -> Format:
    """Return the format that a user's pattern declares.

    Its parser raises ``UsageError`` where the pattern takes too long on a line of the log.
    """
    compiled = re.compile(declared.regex_bytes)
    groups = set(compiled.groupindex)
    number = re.compile(NUMBER)
    not_finite = re.compile(rb"(?<![A-Za-z0-9_])" + NOT_FINITE).search
    search = _Bounded(compiled, declared.regex)

    def value(match: re.Match[bytes], group: str) -> float | None:
        text = match[group] if group in groups else None
        found = number.fullmatch(text.rstrip(b",;")) if text is not None else None
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


class _TooLongError(Exception):
    """A search took too long, and was ended."""


class _Bounded:
    """A search that is ended with an error if it takes too long."""

    def __init__(self, compiled: re.Pattern[bytes], regex: str) -> None:
        self._search = compiled.search
        self._regex = regex
        #: Processor time of all searches, and the bytes that they went through.
        self._seconds = 0.0
        self._bytes = 0
        #: Time of this thread's processor at which a search is ended; None outside of one.
        self._end_s: float | None = None

    def __call__(self, line: bytes) -> re.Match[bytes] | None:
        """Return the match; raise ``UsageError`` where the pattern takes too long."""
        begin_s = time.thread_time()
        self._end_s = begin_s + _LINE_SECONDS
        before = signal.signal(signal.SIGVTALRM, self._end)
        try:
            # Again and again, since threads that are not Python's use up the timer as well.
            signal.setitimer(signal.ITIMER_VIRTUAL, _LINE_SECONDS, _LINE_SECONDS)
            match = self._search(line)
            self._end_s = None
        except _TooLongError:
            raise self._refused(f"{len(line)} bytes of a line", line) from None
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before or signal.SIG_DFL)
        self._seconds += time.thread_time() - begin_s
        self._bytes += len(line)
        if self._seconds > _LOG_SECONDS + _BYTE_SECONDS * self._bytes:
            raise self._refused(f"the first {self._bytes} bytes of the log", line)
        return match

    def _end(self, *_: object) -> None:
        if self._end_s is not None and time.thread_time() >= self._end_s:
            self._end_s = None
            raise _TooLongError

    def _refused(self, what: str, line: bytes) -> UsageError:
        return UsageError(
            f"pattern {self._regex!r} takes too long on {what}, at {line[:80]!r}: it has too many "
            "open repetitions (.* or +) after or within one another; leave some out, or say what "
            "is between, as in [^,]* or \\d+"
        )
