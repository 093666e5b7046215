"""MLPerf logging: ``mlperf_logging/mllog/mllog.py``; ``throughput`` is what submitters add.

Its ``step`` counts epochs, samples or tokens, as the submitter likes; work is in proportion to
it, so that work over time is right whatever it is.
"""

from __future__ import annotations

import json
from typing import Final

from pytest_dlperf.measure.logs.declare import Format, Reading, finite, json_loss

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
    rate = finite(value.get("throughput") if isinstance(value, dict) else value)
    step = finite(metadata.get("step")) if isinstance(metadata, dict) else None
    if rate is None or step is None or not 0 <= step < 1e15:
        return None
    found = value.get("loss", value.get("train_loss")) if isinstance(value, dict) else None
    return Reading(step=int(step), rate=rate, loss=json_loss(found))


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
