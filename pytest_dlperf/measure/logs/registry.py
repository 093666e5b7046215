"""All log formats by name, built in or from entry points; and which one a log has."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from pytest_dlperf.core.errors import UsageError, lookup
from pytest_dlperf.measure.logs.clean import lines_with, whole_lines_with
from pytest_dlperf.measure.logs.declare import Format, LogRecord

#: So many records of one format decide.
_ENOUGH = 20
#: The unit if none is declared.
SAMPLES: Final = "samples"
#: The unit of which an iteration has one, however large its batch is.
ITERATIONS: Final = "iterations"
#: Modules of ``formats/``. Where two formats read as many lines of a log, the first one has it, in
#: the order of the modules and of their tables.
MODULES: Final = (
    "dlperf",
    "paddle",
    "nvidia",
    "openmmlab",
    "examples",
    "tuning",
    "language_models",
    "trainers",
    "mlperf",
    "vision",
    "series",
    "speech",
)


def sniff(block: bytes) -> Format | None:
    """Return the format that reads the most lines of a block, or None if none reads any."""
    # Sessions name formats and mostly read no log; its import of NumPy takes a tenth of a second
    from pytest_dlperf.measure.logs.block import Block

    block = Block(block)  # nearly all anchors are in none of its lines
    best: Format | None = None
    broken: BrokenFormatError | None = None
    most = 0
    for candidate in sorted(formats().values(), key=lambda fmt: fmt.last_resort):
        if best is not None and candidate.last_resort:
            break
        try:
            count = _count(block, candidate)
        except BrokenFormatError as error:
            broken = error
            continue
        if count > most:
            best, most = candidate, count
    if broken is not None:
        warn(broken)
    return best


def needed_before(block: bytes) -> list[bytes]:
    """Return the lines without which a format could not read the lines of later blocks."""
    anchors = (fmt.context_anchors for fmt in formats().values())
    return [line for some in anchors for line in whole_lines_with(block, some)]


def _count(block: bytes, candidate: Format) -> int:
    candidate = candidate.for_log()
    steps = speeds = 0
    for line in lines_with(block, candidate.anchors):
        record = candidate.parse(line.text)
        if record is None:
            continue
        values = (record.rate, record.seconds, record.elapsed_s, record.whole_run)
        is_timed = candidate.by_clock and record.step >= 0
        speeds += is_timed or any(value is not None for value in values)
        steps += record.step >= 0
        # A part of a record by itself may be of any program.
        if (min(steps, speeds) if candidate.several_lines else speeds) >= _ENOUGH:
            break
    return min(steps, speeds) if candidate.several_lines else speeds


@cache
def formats() -> Mapping[str, Format]:
    """Return every known format; an entry point may replace a built-in one.

    One that is broken is left out, and named once on standard error.
    """
    found: dict[str, Format] = {}
    for name in MODULES:
        found |= import_module(f"pytest_dlperf.measure.logs.formats.{name}").FORMATS
    declared, broken = _third_party()
    for error in broken.values():
        warn(error)
    return {**found, **declared}


@cache
def _third_party() -> tuple[Mapping[str, Format], Mapping[str, BrokenFormatError]]:
    return load()


def named(name: str) -> Format:
    """Return a format.

    Raises ``UnknownNameError``, which lists what is known, and ``BrokenFormatError`` for one of an
    entry point that cannot be used.
    """
    _, broken = _third_party()
    if name in broken:
        raise broken[name]
    return lookup("log format", name, formats())


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
