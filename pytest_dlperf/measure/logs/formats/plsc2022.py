"""PLSC from 2022: ``plsc/engine/recognition/train.py`` and ``utils.py`` beside it.

The line is that of PaddleClas, but ``ips`` counts the batch of all devices, and the meters are
set back with every print.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Loss, Reading

_STEP: Final = re.compile(
    rb"\bplsc [A-Z]{1,9}: \[Train\]\[Epoch (\d{1,9})/\d{1,9}\]\[Iter: (\d{1,15})/(\d{1,15})\]"
)
_EPOCHS: Final = Field(rb"\[Epoch \d{1,9}/")
_RATE: Final = Field(rb"\bips: ")
_SECONDS: Final = Field(rb"\bbatch_cost: ")
_WAIT: Final = Field(rb"\breader_cost: ")
_LOSS: Final = Loss(rb"\bloss: ")


def parse(line: bytes) -> Reading | None:
    """Read a record."""
    match = _STEP.search(line)
    if match is None:
        return None
    return Reading(
        epoch=int(match[1]),
        epochs=_EPOCHS.whole(line),
        step=int(match[2]),
        epoch_steps=int(match[3]),
        rate=_RATE(line),
        seconds=_SECONDS(line),
        data_wait_seconds=_WAIT(line),
        loss=_LOSS(line),
    )


FORMAT: Final = Format(
    name="plsc2022",
    scope="global",
    averaging="window",
    unit="images",
    anchors=(b"batch_cost:",),
    parse=parse,
    by_shape=True,
)
