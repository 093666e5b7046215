"""PaddleVideo (TSM): ``paddlevideo/tasks/train.py``, ``paddlevideo/utils/record.py``.

``batch_cost`` (``elapse`` at first) is the value of the printed iteration alone; ``END epoch``
lines are means of the whole epoch, warm-up and all.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Loss, Reading

_STEP: Final = re.compile(
    rb"epoch:\[\s{0,8}(\d{1,9})/\s{0,8}\d{1,9}\s{0,8}\]\s{0,8}"
    rb"train step:\s{0,8}(\d{1,15})"
)
_EPOCHS: Final = Field(rb"epoch:\[\s{0,8}\d{1,9}/\s{0,8}")
_RATE: Final = Field(rb"\bips: {1,4}")
_SECONDS: Final = Field(rb"\b(?:batch_cost|elapse): {1,4}")
_WAIT: Final = Field(rb"\breader(?:_cost)?: {1,4}")
_LOSS: Final = Loss(rb"\bloss: {1,8}")


def parse(line: bytes) -> Reading | None:
    """Read a record."""
    match = _STEP.search(line)
    if match is None:
        return None
    return Reading(
        epoch=int(match[1]),
        epochs=_EPOCHS.whole(line),
        step=int(match[2]),
        rate=_RATE(line),
        seconds=_SECONDS(line),
        data_wait_seconds=_WAIT(line),
        loss=_LOSS(line),
    )


FORMAT: Final = Format(
    name="paddlevideo",
    scope="device",
    averaging="iteration",
    unit="clips",
    anchors=(b"train step:",),
    parse=parse,
    by_shape=True,
)
