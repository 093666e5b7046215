"""The format of our own records, which ``pytest_dlperf/worker/records.py`` writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pytest_dlperf.measure.logs.declare import (
    Derived,
    Format,
    Numbers,
    built_in,
    json_count,
    json_object,
)

_NUMBERS: Final = ("first_step", "last_step", "seconds", "work", "data_wait_seconds")


def _numbers(line: bytes) -> Mapping[str, float | None] | None:
    """Read the numbers of a span."""
    record = json_object(line)
    if record is None or record.get("record") != "span":
        return None
    numbers = {name: json_count(record.get(name)) for name in _NUMBERS}
    return None if any(numbers[name] is None for name in _NUMBERS[:-1]) else numbers


def _fields(numbers: Mapping[str, Numbers]) -> Mapping[str, Numbers]:
    """Make those of an iteration."""
    first, last = numbers["first_step"] // 1, numbers["last_step"] // 1
    seconds, work, iterations = numbers["seconds"], numbers["work"], last - first + 1
    fields = {
        "start": first,
        "step": last,
        "rate": work / seconds,
        "seconds": seconds / iterations,
        "work": work / iterations,
        "is_record": (numbers["last_step"] >= numbers["first_step"]) & (seconds > 0) & (work > 0),
    }
    if "data_wait_seconds" in numbers:
        fields["data_wait_seconds"] = numbers["data_wait_seconds"] / iterations
    return fields


FORMATS: Final = built_in(
    # One JSON line for each span, one file for each rank.
    Format(
        name="dlperf",
        scope="device",
        averaging="window",
        unit="samples",
        counter="global",
        anchors=(b'"span"',),
        parse=Derived(_numbers, _fields),
    ),
)
