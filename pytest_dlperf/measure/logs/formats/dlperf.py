"""The format of our own records, which ``pytest_dlperf/worker/records.py`` writes."""

from __future__ import annotations

from typing import Final

from pytest_dlperf.measure.logs.declare import Format, LogRecord, built_in, json_count, json_object


def _span(line: bytes) -> LogRecord | None:
    """Read a span."""
    record = json_object(line)
    if record is None or record.get("record") != "span":
        return None
    first, last = json_count(record.get("first_step")), json_count(record.get("last_step"))
    seconds, work = json_count(record.get("seconds")), json_count(record.get("work"))
    if first is None or last is None or not seconds or not work or last < first:
        return None
    iterations = int(last) - int(first) + 1
    wait = json_count(record.get("data_wait_seconds"))
    return LogRecord(
        start=int(first),
        step=int(last),
        rate=work / seconds,
        seconds=seconds / iterations,
        work=work / iterations,
        data_wait_seconds=None if wait is None else wait / iterations,
    )


FORMATS: Final = built_in(
    # One JSON line for each span, one file for each rank.
    Format(
        name="dlperf",
        scope="device",
        averaging="window",
        unit="samples",
        counter="global",
        anchors=(b'"span"',),
        parse=_span,
    ),
)
