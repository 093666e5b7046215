"""The ImageNet example of PyTorch: ``examples/imagenet/main.py``.

``Time`` is the printed iteration alone, the mean of the epoch so far stands in brackets. The
mean is used: where data is short its batches come in bursts, and one iteration in ten or a
hundred may show none of the waiting. Every process counts its own share of the batch;
``-b`` is that of the node.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Loss, Reading

_STEP: Final = re.compile(rb"Epoch: \[(\d{1,9})\]\[\s{0,12}(\d{1,15})/(\d{1,15})\]\s")
_SECONDS: Final = Field(rb"\bTime\s{1,12}[\d.]{1,16} \(\s{0,12}")
_WAIT: Final = Field(rb"\bData\s{1,12}[\d.]{1,16} \(\s{0,12}")
_LOSS: Final = Loss(rb"\bLoss\s{1,12}")


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
    name="imagenet",
    scope="process",
    averaging="running",
    resolution=0.001,
    unit="images",
    anchors=(b"Epoch: [",),
    parse=parse,
    by_shape=True,
    batch_of="node",
)
