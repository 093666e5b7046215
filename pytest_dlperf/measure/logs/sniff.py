"""Which format a log has, by what its lines say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_dlperf.measure.logs.clean import lines_with
from pytest_dlperf.measure.logs.registry import formats
from pytest_dlperf.measure.logs.third_party import BrokenFormatError, warn

if TYPE_CHECKING:
    from pytest_dlperf.measure.logs.declare import Format

#: So many records of one format decide.
_ENOUGH = 20


def sniff(block: bytes) -> Format | None:
    """Return the format that reads the most lines of a block, or None where none reads one."""
    best: Format | None = None
    broken: BrokenFormatError | None = None
    most = 0
    for candidate in sorted(formats().values(), key=lambda form: form.last_resort):
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
        reading = candidate.parse(line.text)
        if reading is None:
            continue
        values = (reading.rate, reading.seconds, reading.whole_run)
        count += any(value is not None for value in values)
        if count >= _ENOUGH:
            break
    return count
