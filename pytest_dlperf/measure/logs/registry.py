"""All log formats by name, built in or from entry points; and which one a log has."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Final

from pytest_dlperf.core.errors import lookup
from pytest_dlperf.measure.logs import third_party
from pytest_dlperf.measure.logs.clean import lines_with
from pytest_dlperf.measure.logs.declare import Format
from pytest_dlperf.measure.logs.third_party import BrokenFormatError, warn

#: So many records of one format decide.
_ENOUGH = 20
#: The unit if none is declared.
SAMPLES: Final = "samples"
#: Modules of ``formats/``. Where two formats read as many lines of a log, the first one has it, in
#: the order of the modules and of their tables.
MODULES: Final = ("dlperf", "paddle", "nvidia", "openmmlab", "examples", "trainers")


def sniff(block: bytes) -> Format | None:
    """Return the format that reads the most lines of a block, or None if none reads any."""
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


def _count(block: bytes, candidate: Format) -> int:
    count = 0
    for line in lines_with(block, candidate.anchors):
        record = candidate.parse(line.text)
        if record is None:
            continue
        values = (record.rate, record.seconds, record.whole_run)
        count += any(value is not None for value in values)
        if count >= _ENOUGH:
            break
    return count


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
        third_party.warn(error)
    return {**found, **declared}


@cache
def _third_party() -> tuple[Mapping[str, Format], Mapping[str, BrokenFormatError]]:
    return third_party.load()


def named(name: str) -> Format:
    """Return a format.

    Raises ``UnknownNameError``, which lists what is known, and ``BrokenFormatError`` for one of an
    entry point that cannot be used.
    """
    _, broken = _third_party()
    if name in broken:
        raise broken[name]
    return lookup("log format", name, formats())
