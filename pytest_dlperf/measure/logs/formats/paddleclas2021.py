"""PaddleClas of January 2021, dynamic: ``tools/program.py``; commas after epoch and step.

The meters are set back when step 10 of an epoch begins, not step 5 as in its heir.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Loss, Reading

_STEP: Final = re.compile(rb"epoch:(\d{1,9}) {0,8}, train step:(\d{1,15}) {0,8},")
_RATE: Final = Field(rb"\bips: ")
_SECONDS: Final = Field(rb"\bbatch_cost: ")
_WAIT: Final = Field(rb"\breader_cost: ")
_LOSS: Final = Loss(rb"\bloss: {1,8}")


def parse(line: bytes) -> Reading | None:
    """Read a record; ``valid step`` and ``END epoch`` lines are none."""
    match = _STEP.search(line)
    if match is None:
        return None
    return Reading(
        epoch=int(match[1]),
        step=int(match[2]),
        rate=_RATE(line),
        seconds=_SECONDS(line),
        data_wait_seconds=_WAIT(line),
        loss=_LOSS(line),
    )


FORMAT: Final = Format(
    name="paddleclas2021",
    scope="device",
    averaging="running",
    running_since=10,
    unit="images",
    anchors=(b", train step:",),
    parse=parse,
    by_shape=True,
    batch_of="global",
)
