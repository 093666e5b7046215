"""NGC PyTorch Transformer (a fork of fairseq): ``train.py`` through DLLogger's text output."""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Loss, Reading

_STEP: Final = re.compile(rb"Transformer \| epoch (\d{1,9}) \| step (\d{1,15}) \|")
_RATE: Final = Field(rb"\|tokens/s ")
_WORK: Final = Field(rb"\|avg tokens ")
_LOSS: Final = Loss(rb"\|avg loss ")


def parse(line: bytes) -> Reading | None:
    """Read a record."""
    match = _STEP.search(line)
    if match is None:
        return None
    return Reading(
        epoch=int(match[1]),
        step=int(match[2]),
        rate=_RATE(line),
        work=_WORK(line),
        loss=_LOSS(line),
    )


FORMAT: Final = Format(
    name="ngc-transformer",
    scope="global",
    averaging="window",
    unit="tokens",
    first_step=1,
    counter="global",
    anchors=(b"|tokens/s ",),
    parse=parse,
    by_shape=True,
)
