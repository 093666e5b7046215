"""MLPerf logging: ``mlperf_logging/mllog/mllog.py``; ``throughput`` is what submitters add."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from pytest_dlperf.logs.declare import Format, Reading

_MARK: Final = b":::MLLOG"


def parse(line: bytes) -> Reading | None:
    """Read a ``tracked_stats`` or ``throughput`` event that names its step."""
    try:
        event = json.loads(line.partition(_MARK)[2])
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or event.get("key") not in {"tracked_stats", "throughput"}:
        return None
    value, metadata = event.get("value"), event.get("metadata")
    rate = _number(value.get("throughput") if isinstance(value, dict) else value)
    step = _number(metadata.get("step")) if isinstance(metadata, dict) else None
    if rate is None or step is None or not 0 <= step < 1e15:
        return None
    loss = _loss(value.get("loss")) if isinstance(value, dict) else None
    return Reading(step=int(step), rate=rate, loss=loss)


def _loss(value: Any) -> float | None:
    # Python's JSON has NaN and Infinity.
    is_lost = isinstance(value, float) and not math.isfinite(value)
    return math.inf if is_lost else _number(value)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if abs(value) > 1e300 or not math.isfinite(value):
        return None
    return float(value)


FORMAT: Final = Format(
    name="mlperf",
    scope="global",
    averaging="window",
    unit="samples",
    first_step=1,
    counter="global",
    anchors=(_MARK,),
    parse=parse,
    by_shape=True,
)
