"""torchvision's references: ``MetricLogger`` of ``references/classification/utils.py``.

Detection, DETR, DeiT and MAE have the same. ``time`` is the mean of the last 20 iterations, the
wait for data within it. ``img/s`` is that of the last iteration without the wait, and is not
used.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Loss, Reading

_STEP: Final = re.compile(
    rb"\bEpoch: \[(\d{1,9})\] {1,4}\[ {0,14}(\d{1,15})/(\d{1,15})\] {1,4}eta: "
)
_SECONDS: Final = Field(rb" time: ")
_WAIT: Final = Field(rb" data: ")
_LOSS: Final = Loss(rb" loss: ")


def parse(line: bytes) -> Reading | None:
    """Read a record; a test's lines begin with ``Test:``."""
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
    name="torchvision",
    scope="process",
    averaging="window",
    unit="images",
    anchors=(b"Epoch: [",),
    parse=parse,
    by_shape=True,
)
