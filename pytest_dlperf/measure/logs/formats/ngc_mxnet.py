"""NGC MXNet ResNet-50 (``fit.py``): DLLogger lines, and ``Epoch[1] Batch [320-339]`` of 2020.

Windows of ``disp_batches`` iterations; the speed is global in both, and in 2020 every rank
printed it. ``DLLL {…}`` are the first kind as JSON. ``Epoch[0] Batch [20]`` of MXNet's own
Speedometer is of one process, and is not read.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Loss, Reading

_STEP: Final = re.compile(rb"(?:Epoch: |\"step\": ?\[)(\d{1,9})(?: Iteration: |, ?)(\d{1,15})")
_STEP_2020: Final = re.compile(rb"Epoch\[(\d{1,9})\] Batch \[\d{1,15}-(\d{1,15})\]")
_RATE: Final = Field(rb"(?:\btrain\.ips(?: : |\": ?)|\bSpeed: )")
_LOSS: Final = Loss(rb"\btrain\.loss(?: : |\": ?)")


def parse(line: bytes) -> Reading | None:
    """Read a record."""
    match = _STEP.search(line) or _STEP_2020.search(line)
    if match is None:
        return None
    return Reading(epoch=int(match[1]), step=int(match[2]), rate=_RATE(line), loss=_LOSS(line))


FORMAT: Final = Format(
    name="ngc-mxnet",
    scope="global",
    averaging="window",
    unit="images",
    anchors=(b"train.ips", b"Speed: "),
    parse=parse,
    by_shape=True,
    batch_of="global",
)
