"""The TSM repository's own ``main.py``: like the ImageNet example, with ``, lr:`` after the step.

One process drives all devices (``DataParallel``), so the time is that of the global batch, and
``--batch-size`` counts it. The mean in brackets is used, as there.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Loss, Reading

_STEP: Final = re.compile(rb"Epoch: \[(\d{1,9})\]\[(\d{1,15})/(\d{1,15})\], lr: ")
_SECONDS: Final = Field(rb"\bTime [\d.]{1,16} \(")
_WAIT: Final = Field(rb"\bData [\d.]{1,16} \(")
_LOSS: Final = Loss(rb"\bLoss ")


def parse(line: bytes) -> Reading | None:
    """Read a record."""
    match = _STEP.search(line)
    if match is None:
        return None
    return Reading(
        epoch=int(match[1]),
        step=int(match[2]),
        epoch_steps=int(match[3]),
        seconds=_SECONDS(line),
        data_wait_seconds=_WAIT(line),
        loss=_LOSS(line),
    )


FORMAT: Final = Format(
    name="tsm",
    scope="process",
    averaging="running",
    resolution=0.001,
    unit="clips",
    anchors=(b"Epoch: [",),
    parse=parse,
    by_shape=True,
    batch_of="global",
)
