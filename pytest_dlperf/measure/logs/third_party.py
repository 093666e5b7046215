"""Load the formats of other packages; a broken one is reported, and the others still work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.measure.logs.declare import Format, LogRecord

ENTRY_POINTS: Final = "pytest_dlperf.log_formats"


class BrokenFormatError(UsageError):
    """A format of another package cannot be used; the sentence names its entry point."""


def load() -> tuple[dict[str, Format], dict[str, BrokenFormatError]]:
    """Return the formats that entry points declare, and why the others cannot be used."""
    found: dict[str, Format] = {}
    broken: dict[str, BrokenFormatError] = {}
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            found[entry.name] = _checked(entry, _loaded(entry))
        except BrokenFormatError as error:
            broken[entry.name] = error
    return found, broken


def warn(error: BrokenFormatError) -> None:
    """Say on standard error, once, that a format was left out."""
    _say(f"dlperf: warning: {error}; it was left out\n")


@cache
def _say(text: str) -> None:
    sys.stderr.write(text)


def _loaded(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except Exception as error:  # a stranger's module may raise anything
        raise _broken(entry, f"{type(error).__name__}: {error}") from error


def _checked(entry: EntryPoint, declared: Any) -> Format:
    if not isinstance(declared, Format):
        raise _broken(entry, "it is not a pytest_dlperf.measure.logs.declare.Format")
    anchors: Any = declared.anchors
    if (
        not isinstance(anchors, tuple)
        or not anchors
        or not all(isinstance(anchor, bytes) and anchor for anchor in anchors)
    ):
        raise _broken(entry, f"anchors must be a tuple of bytes, one or more, not {anchors!r}")
    if not callable(declared.parse):
        raise _broken(entry, "parse must be a function")
    return replace(declared, parse=_guarded(entry, declared.parse))


def _guarded(
    entry: EntryPoint, parse: Callable[[bytes], Any]
) -> Callable[[bytes], LogRecord | None]:
    def guarded(line: bytes) -> LogRecord | None:
        try:
            record = parse(line)
        except Exception as error:  # as above
            what = f"{type(error).__name__}: {error}, at the line {line[:80]!r}"
            raise _broken(entry, what) from error
        if record is None or isinstance(record, LogRecord):
            return record
        raise _broken(entry, f"its parser returned {type(record).__name__}, not a LogRecord")

    return guarded


def _broken(entry: EntryPoint, why: str) -> BrokenFormatError:
    text = " ".join(why.split())
    return BrokenFormatError(
        f"log format {entry.name!r} cannot be used, mend or remove its package (entry point "
        f"{entry.value} of {ENTRY_POINTS}): {text}"
    )
