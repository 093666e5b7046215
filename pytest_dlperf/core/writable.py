"""Text from outside as it can be written: messages of exceptions, names of files and hosts.

``os.fsdecode`` makes halves of surrogate pairs of bytes that are not UTF-8, so that no file, pipe
or database takes a message with such a name. Text is made writable where it comes in.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from typing import Any, Final

#: Characters of a text that are kept at its begin and at its end: a message may hold a batch.
_KEPT: Final = 4096
#: A cut is moved by up to so many characters to a blank, so that it leaves no part of a word.
_WORD: Final = 256
_UNWRITABLE: Final = re.compile("[\x00\ud800-\udfff]")
#: Characters of a line of a log that are shown.
_LINE: Final = 400
#: Lines of a traceback that are kept at its begin and at its end.
_FIRST_LINES: Final = 12
_LAST_LINES: Final = 40


def writable(text: str) -> str:
    r"""Return ``text`` with what UTF-8 or a database cannot write as ``\udce9`` or ``\x00``."""
    return _UNWRITABLE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code else "\\x00"


def shortened(text: str) -> str:
    """Return ``text`` without the middle of a very long one, and a line that says so."""
    if len(text) <= 2 * _KEPT + _WORD:
        return text
    begin, end = line_begin(text, _KEPT), text[-_KEPT:]
    end = end[end.find(" ", 0, _WORD) + 1 :]
    left_out = len(text) - len(begin) - len(end)
    return f"{begin}\n({left_out} characters are left out)\n{end}"


def line_begin(line: str, length: int) -> str:
    """Return ``line``, or a begin of it of at most ``length`` characters, cut at a blank.

    Secrets are masked where a text comes into an outcome, and half of one would not be known.
    """
    if len(line) <= length:
        return line
    blank = line.rfind(" ", max(0, length - _WORD), length + 1)
    return line[: blank if blank > 0 else length]


def last_lines(text: str, *, count: int = 12, nothing: str = "(it printed nothing)") -> str:
    """Return the last lines of ``text`` that are not blank, indented; ``nothing`` if none is."""
    lines = [line_begin(line, _LINE) for line in text.splitlines() if line.strip()]
    return "\n".join(f"    {line}" for line in lines[-count:] or [nothing])


def log_remark(log: object, end: str) -> str:
    """Return what an error says of a ``log``, whose ``end`` are its last lines."""
    return f"Log: {log}, its last lines:\n{end}"


def writable_values(value: Any) -> Any:
    """Return plain JSON types with every text of them writable, keys included."""
    return _with_texts(value, writable)


def texts_of_rank(values: Any) -> Any:
    """Return plain JSON types with every text of them writable, and none very long."""
    return _with_texts(values, lambda text: shortened(writable(text)))


def _with_texts(value: Any, changed: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return changed(value)
    if isinstance(value, dict):
        return {changed(key): _with_texts(item, changed) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_texts(item, changed) for item in value]
    return value


def message_of(error: BaseException) -> str:
    """Return the message of ``error``, or that it cannot be printed."""
    try:
        return writable(str(error))
    except KeyboardInterrupt:
        raise
    except BaseException as unprintable:  # noqa: BLE001  # of a stranger's __str__
        return f"(its message cannot be printed: {type(unprintable).__name__})"


def error_words(error: BaseException) -> str:
    """Return the type and the message of ``error``."""
    return f"{writable(type(error).__name__)}: {message_of(error)}"


def traceback_words(error: BaseException) -> str:
    """Return the traceback of ``error``, without the middle of a very long one."""
    try:
        text = "".join(traceback.format_exception(error))
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001  # of a stranger's attributes
        lines = ["Traceback (most recent call last):\n", *traceback.format_tb(error.__traceback__)]
        text = "".join([*lines, error_words(error)])
    lines = writable(text).splitlines()
    left_out = len(lines) - _FIRST_LINES - _LAST_LINES
    if left_out > 1:
        words = f"  ({left_out} lines of the traceback are left out)"
        lines = [*lines[:_FIRST_LINES], words, *lines[-_LAST_LINES:]]
    return "\n".join(lines)


def unforeseen(error: BaseException) -> str:
    """Return the reason of a case that an ``error`` ended which nobody raised for the user."""
    return (
        f"an error that was not foreseen: {shortened(error_words(error))}; unless its traceback "
        "leads into a plugin or a conftest, report it as a fault of pytest-dlperf:\n"
        f"{shortened(traceback_words(error))}"
    )
