"""PaddleClas of 2020: ``tools/static/program.py``; every step, a running mean like its heir's."""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Loss, Reading

_STEP: Final = re.compile(rb"epoch:(\d{1,9})\s{1,8}train step:\s{0,8}(\d{1,15})")
_RATE: Final = Field(rb"\bips: ")
_SECONDS: Final = Field(rb"\belapse: ")
_LOSS: Final = Loss(rb"\bloss: {1,8}")


def parse(line: bytes) -> Reading | None:
    """Read a record; ``END epoch`` lines average a whole epoch and are none."""
    match = _STEP.search(line)
    if match is None or b"END epoch" in line or b" ips: " not in line:
        return None
    return Reading(
        epoch=int(match[1]),
        step=int(match[2]),
        rate=_RATE(line),
        seconds=_SECONDS(line),
        loss=_LOSS(line),
    )


FORMAT: Final = Format(
    name="paddleclas2020",
    scope="device",
    averaging="running",
    running_since=0,
    unit="images",
    anchors=(b"elapse:",),
    parse=parse,
    by_shape=True,
    batch_of="global",
)
