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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final, Literal

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.log_pattern import LogPattern, regex_bytes
from pytest_dlperf.measure.logs import beside_pattern
from pytest_dlperf.measure.logs.beside_groups import (
    Contradictions,
    contradiction,
    names_mean,
    words_of_device,
)
from pytest_dlperf.measure.logs.clean import LINE_BYTES, untagged
from pytest_dlperf.measure.logs.declare import NOT_FINITE, Format, LogRecord
from pytest_dlperf.measure.logs.evaluation_words import asks_for_evaluation, names_evaluation
from pytest_dlperf.measure.logs.grouped_digits import is_part, multiple_of, number_of
from pytest_dlperf.measure.logs.other_units import SPEEDS, OtherUnits
from pytest_dlperf.measure.logs.registry import SAMPLES
from pytest_dlperf.measure.logs.work_of_lines import WorkOfLines

#: More processor time than this for one line is too much.
_LINE_SECONDS: Final = 0.25
#: So is more than this for a log in all, beside what an ordinary pattern may take for a byte.
_LOG_SECONDS: Final = 1.0
_BYTE_SECONDS: Final = 5e-6
#: So many lines show how a running mean is printed.
_MOST_LINES: Final = 4096


def format_of_pattern(declared: LogPattern, unit: str = "") -> Format:
    """Return the format that a user's pattern declares.

    ``unit`` is what its rates count where the pattern does not say it. The parser raises
    ``UsageError`` where the pattern takes too long on a line of the log.
    """
    contradictions, rounding, work = Contradictions(), _Rounding(), WorkOfLines()
    counted = declared.unit or unit or SAMPLES
    searches = [_Search(regex, contradictions, counted) for regex in declared.regexes]
    resolutions = [math.inf]
    has_loss, has_norm = (
        any(name in search.groups for search in searches) for name in ("loss", "grad_norm")
    )

    def parse(line: bytes) -> LogRecord | None:
        texts: dict[str, bytes] = {}
        unread = 0
        for search in searches:
            texts = {**search(line), **texts}
            unread += search.has_unread
        step = _number(texts, "step")
        if not texts and unread:
            late = next(search.unread_step for search in searches if search.has_unread)
            return LogRecord(step=late, unread=1)
        if not texts or (step is not None and not 0 <= step < 1e15):
            return None
        if step is None and ("step" in texts or all(search.has_step for search in searches)):
            return None
        rate, seconds = _number(texts, "rate"), _seconds(texts, "seconds", "milliseconds")
        if rate or seconds:
            rounding.add(texts)
            if rate and not seconds:
                work.add(line, rate)
        else:
            unread += any(_is_unread(texts[name]) for name in SPEEDS if name in texts)
        epoch = _number(texts, "epoch")
        if texts.get("elapsed"):
            resolutions[:] = [min(resolutions[0], _rounding_of_elapsed(texts["elapsed"]))]
        loss = _loss(texts, "loss") if has_loss else beside_pattern.loss_of(line)
        norm = _loss(texts, "grad_norm") if has_norm else beside_pattern.norm_of(line)
        return LogRecord(
            step=-1 if step is None else int(step),
            epoch=None if epoch is None else int(epoch),
            rate=rate,
            seconds=seconds,
            elapsed_s=elapsed_of(texts.get("elapsed", b"")),
            data_wait_seconds=_seconds(texts, "data", "data_milliseconds"),
            loss=loss,
            grad_norm=norm,
            unread=1 if unread else None,
        )

    return Format(
        name="pattern",
        scope=declared.scope or "global",
        is_scope_said=bool(declared.scope),
        averaging=declared.averaging or "window",
        is_averaging_said=bool(declared.averaging) or declared.clock_suffices,
        unit=declared.unit or SAMPLES,
        anchors=(b"\n",),
        parse=parse,
        by_clock=declared.clock_suffices,
        printed_resolution=(lambda: min(resolutions)) if declared.has_elapsed else None,
        by_block=partial(_with_digits, searches) if declared.averaging == "running" else None,
        batch_is_work=True,
        no_time=_NO_TIME,
        no_number=lambda: contradictions.first,
        rate_of_device=lambda: contradictions.of_device,
        names_mean=lambda: contradictions.names_mean,
        rounding=lambda: rounding.share,
        unread_at_end=lambda: next(
            (step for search in searches if (step := search.pending_step) is not None), None
        ),
        work_of_lines=None if declared.averaging == "running" else lambda: work.work,
        several_lines=(declared.has_elapsed or not declared.clock_suffices)
        and (len(searches) > 1 or any("|" in regex for regex in declared.regexes)),
    )


_ALL_DIGITS: Final = (
    "a group needs all digits of its number with the marks between them, as (?P<rate>[\\d ]+) has "
    "those of '1 048 576'"
)
_NO_TIME: Final = f"none has a rate or a time that is a number above 0; {_ALL_DIGITS}"
_NOT_FINITE: Final = re.compile(rb"(?<![A-Za-z0-9_])" + NOT_FINITE)
#: What a bar shows before it knows its speed is no number in another unit.
_HAS_DIGIT: Final = re.compile(rb"\d")


_CLOCK: Final = re.compile(
    rb"(?:(\d{1,6}) ?d(?:ays?)?,? {0,2})?(?:(\d{1,6}):)?(\d{1,3}):(\d\d(?:\.\d{1,9})?)"
)
_DURATION: Final = re.compile(
    rb"(?=\d)(?:(\d{1,6}) ?d(?:ays?)?,? ?)?(?:(\d{1,6}(?:\.\d{1,9})?) ?h(?:(?:ou)?rs?)?,? ?)?"
    rb"(?:(\d{1,6}(?:\.\d{1,9})?) ?m(?:in(?:ute)?s?)?,? ?)?"
    rb"(?:(\d{1,9}(?:\.\d{1,9})?) ?(?:s|secs?|seconds?))?"
)
#: Milliseconds since 1970 are more.
_MOST_ELAPSED_S: Final = 1e11
_LAST_UNIT: Final = re.compile(rb" ?[a-z]{1,8}\s{0,4}$")


def _is_unread(text: bytes) -> bool:
    """Return whether a speed that was found is there, and not a number of its group."""
    return not text or _HAS_DIGIT.search(text) is not None


def _number(groups: Mapping[str, bytes], group: str) -> float | None:
    return number_of(groups[group]) if group in groups else None


def elapsed_of(text: bytes) -> float | None:
    """Return the seconds of ``12.5``, ``1:02:03``, ``1 day, 2:03:04`` or ``1h 2m 3s``."""
    parts = _CLOCK.fullmatch(text.strip()) or _DURATION.fullmatch(text.strip())
    if parts is None:
        return number_of(text)
    return sum(
        seconds * float(number)
        for seconds, number in zip((86400, 3600, 60, 1), parts.groups(), strict=True)
        if number
    )


def _loss(groups: Mapping[str, bytes], group: str) -> float | None:
    """Return a loss, or a norm of gradients; infinite if the text has no finite number."""
    # Other text may be around it, as in tensor(nan, device='cuda:0').
    if _NOT_FINITE.search(groups.get(group, b"")) is not None:
        return math.inf
    return _number(groups, group)


def _seconds(groups: Mapping[str, bytes], group: str, in_milliseconds: str) -> float | None:
    number = _number(groups, in_milliseconds)
    return _number(groups, group) if number is None else number / 1000


def _with_digits(searches: Sequence[_Search], fmt: Format, block: bytes) -> Format:
    """Return the format of a running mean with its first step and its rounding, by a block.

    A mean at the first step is of one iteration where that step is 0, or one before a round one
    as in 9, 19; elsewhere the first iteration is called 1.
    """
    first_step: Literal[0, 1] | None = None
    resolution = 0.0
    for line in islice(block.split(b"\n"), _MOST_LINES):
        texts: dict[str, bytes] = {}
        for search in searches:
            texts = {**search(untagged(line[:LINE_BYTES]).text), **texts}
        step = _number(texts, "step")
        if first_step is None and step is not None:
            first_step = 0 if step == 0 or step % 10 == 9 else 1
        rate, seconds = _number(texts, "rate"), _seconds(texts, "seconds", "milliseconds")
        if rate:
            resolution = _rounding(texts["rate"]) / rate**2
        elif seconds:
            is_short = "milliseconds" in texts
            text = texts["milliseconds" if is_short else "seconds"]
            resolution = _rounding(text) / (1000 if is_short else 1)
    first_step = first_step or 0
    return replace(
        fmt, first_step=first_step, running_since=first_step, resolution=resolution, by_block=None
    )


def _rounding(text: bytes) -> float:
    """Return one unit of a number's last digit."""
    match = re.search(rb"[.](\d*)", text)
    exponent = re.search(rb"[eE]([+-]?\d{1,3})", text)
    decimals = 0 if match is None else len(match[1])
    return 10.0 ** ((0 if exponent is None else int(exponent[1])) - decimals) * multiple_of(text)


def _rounding_of_elapsed(text: bytes) -> float:
    """Return one unit of the last digit of an elapsed time, in seconds."""
    unit = _LAST_UNIT.search(text)
    return _rounding(text) * ((elapsed_of(b"1" + unit[0]) if unit else None) or 1.0)


class _Rounding:
    """Which share of itself a speed is rounded by, at most, in the mean of the lines so far."""

    def __init__(self) -> None:
        self._shares = 0.0
        self._lines = 0

    @property
    def share(self) -> float:
        return self._shares / max(1, self._lines)

    def add(self, texts: Mapping[str, bytes]) -> None:
        """Take in the speed of a line."""
        text = next(texts[name] for name in SPEEDS if texts.get(name))
        number = number_of(text)
        if number:
            self._shares += min(1.0, _rounding(text) / 2 / number)
            self._lines += 1


class _Search:
    """One of a user's patterns."""

    def __init__(self, regex: str, contradictions: Contradictions, unit: str) -> None:
        """Take a pattern whose rates count a unit."""
        compiled = re.compile(regex_bytes(regex))
        self._regex = regex
        self._unit = unit
        self._contradictions = contradictions
        self._other_units = OtherUnits(contradictions, unit)
        #: Set where a line before the last one, of this step, has its speed in another unit.
        self.unread_step = -1
        self.has_unread = False
        self._search = _Bounded(compiled, regex)
        self._takes_evaluation = asks_for_evaluation(regex)
        #: Whether each of its matches has a step.
        self.has_step = "step" in compiled.groupindex and "|" not in regex
        self.groups = frozenset(compiled.groupindex)

    @property
    def pending_step(self) -> int | None:
        """The step of a last line that has its speed in another unit; None: there is none."""
        return self._other_units.pending

    def __call__(self, line: bytes) -> dict[str, bytes]:
        """Return the text of each group that is found, unless the line is of an evaluation."""
        match = self._search(line)
        self.has_unread = False
        if match is None:
            step = self._other_units.unread(line)
            if step is not None:
                self.unread_step, self.has_unread = step, True
            return {}
        starts = [
            match.start(name) for name, text in match.groupdict().items() if text is not None
        ]
        head = line[: min(starts, default=0)]
        if not self._takes_evaluation and names_evaluation(head):
            return {}
        texts = {name: text for name, text in match.groupdict().items() if text is not None}
        if "rate" in texts and not self._contradictions.of_device:
            self._contradictions.of_device = words_of_device(match)
        if not self._contradictions.names_mean:
            speeds = (name for name in SPEEDS if name in texts)
            self._contradictions.names_mean = any(names_mean(match, name) for name in speeds)
        numbers = {
            name: b"" if self._contradicts(match, name) else text for name, text in texts.items()
        }
        number = _number(numbers, "step")
        self.has_unread = self._other_units.read(match, None if number is None else int(number))
        return numbers

    def _contradicts(self, match: re.Match[bytes], group: str) -> bool:
        """Return whether a group has no number, which the log's lines say in other words."""
        cause = contradiction(match, group, self._unit)
        if group == "elapsed" and (number_of(match[group] or b"") or 0.0) >= _MOST_ELAPSED_S:
            cause = "it would be thousands of years; seconds since 1970 have ten digits"
        if not cause and is_part(self._regex, match, group):
            cause = f"it is a part of a longer number; {_ALL_DIGITS}"
        return self._contradictions.finds(match, group, cause)


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
