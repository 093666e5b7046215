"""PLSC (ArcFace): ``plsc/entry.py`` at 9bba9c9, format string ``Pass:%d batch:%d lr:%f loss:%f``.

``qps`` counts the global batch, times only the executor (not the wait for data), and every rank
prints it.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Loss, Reading

_STEP: Final = re.compile(rb"Pass:(\d{1,9}) batch:(\d{1,15})")
_RATE: Final = Field(rb"\b(?:qps|avg_samples/s):\s?")
_LOSS: Final = Loss(rb"\bloss:\s?")


def parse(line: bytes) -> Reading | None:
    """Read a record."""
    match = _STEP.search(line)
    if match is None:
        return None
    return Reading(epoch=int(match[1]), step=int(match[2]), rate=_RATE(line), loss=_LOSS(line))


FORMAT: Final = Format(
    name="plsc",
    scope="global",
    averaging="window",
    unit="images",
    anchors=(b"Pass:",),
    parse=parse,
    by_shape=True,
)
