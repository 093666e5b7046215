"""PaddleClas from 2021: ``ppcls/static/program.py``, ``ppcls/engine/train/utils.py``.

The meters are set back when step 5 of an epoch begins, so a printed ``batch_cost`` is the mean
since then. The static program has new ones in each epoch; in the dynamic one (``[Train]``) the
mean of an epoch runs on until step 5 of the next. ``ips`` is the last batch over the mean time,
also where an epoch's last batch is a smaller one.

PLSC of 2022 prints lines of the same kind that mean something else.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Loss, Reading

_STEP: Final = re.compile(rb"epoch:(\d{1,9})\s{1,8}train step:\s{0,8}(\d{1,15})")
_STEP_ITER: Final = re.compile(rb"\[Train\]\[Epoch (\d{1,9})/\d{1,9}\]\[Iter: (\d{1,15})/")
_EPOCH_STEPS: Final = Field(rb"\[Iter: \d{1,15}/", rb"\]")
_EPOCHS: Final = Field(rb"\[Epoch \d{1,9}/")
_RATE: Final = Field(rb"\bips: ")
_SECONDS: Final = Field(rb"\bbatch_cost: ")
_WAIT: Final = Field(rb"\breader_cost: ")
_LOSS: Final = Loss(rb"\b(?:CELoss|[Ll]oss): {1,8}")


def parse(line: bytes) -> Reading | None:
    """Read a record; ``END epoch`` lines average a whole epoch and are none."""
    match = _STEP.search(line) or _STEP_ITER.search(line)
    if match is None or b"END epoch" in line or b"plsc " in line:
        return None
    return Reading(
        epoch=int(match[1]),
        epochs=_EPOCHS.whole(line),
        epoch_steps=_EPOCH_STEPS.whole(line),
        step=int(match[2]),
        rate=_RATE(line),
        seconds=_SECONDS(line),
        data_wait_seconds=_WAIT(line),
        loss=_LOSS(line),
    )


FORMAT: Final = Format(
    name="paddleclas",
    scope="device",
    averaging="running",
    running_since=5,
    carries_over=True,
    cost_resolution=1e-5,
    unit="images",
    anchors=(b"batch_cost:",),
    parse=parse,
    by_shape=True,
)
