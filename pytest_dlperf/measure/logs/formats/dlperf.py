"""Our own records: ``pytest_dlperf/worker/records.py``, one JSON line a span, one file a rank."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from pytest_dlperf.measure.logs.declare import Format, Reading


def parse(line: bytes) -> Reading | None:
    """Read a span."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or record.get("record") != "span":
        return None
    first, last = _number(record.get("first_step")), _number(record.get("last_step"))
    seconds, work = _number(record.get("seconds")), _number(record.get("work"))
    if first is None or last is None or not seconds or not work or last < first:
        return None
    iterations = int(last) - int(first) + 1
    wait = _number(record.get("data_wait_seconds"))
    return Reading(
        start=int(first),
        step=int(last),
        rate=work / seconds,
        seconds=seconds / iterations,
        work=work / iterations,
        data_wait_seconds=None if wait is None else wait / iterations,
    )


def _number(value: Any) -> float | None:
    """Return a number that is not negative, not huge and not NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        return None
    return float(value) if math.isfinite(value) else None


FORMAT: Final = Format(
    name="dlperf",
    scope="device",
    averaging="window",
    unit="samples",
    counter="global",
    anchors=(b'"span"',),
    parse=parse,
    by_shape=True,
)
