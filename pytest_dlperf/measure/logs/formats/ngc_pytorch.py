"""NGC PyTorch ResNet-50: DLLogger lines of ``image_classification/logger.py``.

``DLLL {…}`` are the same as JSON, as in ``raport.json``.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Loss, Reading

_STEP: Final = re.compile(rb"(?:Epoch: |\"step\": ?\[)(\d{1,9})(?: Iteration: |, ?)(\d{1,15})")
_RATE: Final = Field(rb"\btrain\.total_ips(?: : |\": ?)")
_LOSS: Final = Loss(rb"\btrain\.loss(?: : |\": ?)")


def parse(line: bytes) -> Reading | None:
    """Read a record."""
    match = _STEP.search(line)
    if match is None:
        return None
    rate = _RATE(line)
    return Reading(epoch=int(match[1]), step=int(match[2]), rate=rate, loss=_LOSS(line))


FORMAT: Final = Format(
    name="ngc-pytorch",
    scope="global",
    averaging="iteration",
    unit="images",
    first_step=1,
    anchors=(b"train.total_ips",),
    parse=parse,
    by_shape=True,
)
