"""mmsegmentation and its kin: seconds of an iteration over a window, validation apart.

``Iter [50/40000]`` by ``mmcv/runner/hooks/logger/text.py``, and ``Iter(train) [  50/40000]`` by
``mmengine/runner/log_processor.py``, whose window is the last ``window_size`` iterations. In
mmcv ``data_time`` is all since the iteration before, an evaluation too.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Loss, Reading

_STEP: Final = re.compile(rb"\bIter(?:\(train\))? {1,4}\[ {0,14}(\d{1,15})/\d{1,15}\]")
_EPOCH_STEP: Final = re.compile(
    rb"\bEpoch(?:\(train\))? {1,4}\[ {0,8}(\d{1,9})\]\[ {0,14}(\d{1,15})/\d{1,15}\]"
)
#: What mmcv's iteration timer counts as data of the iteration after it.
_ASIDE: Final = re.compile(rb"\bIter\(val\) \[\d{1,15}\]")
_TOTAL: Final = Field(rb"\bIter(?:\(train\))? {1,4}\[ {0,14}\d{1,15}/", rb"\]")
_EPOCH_STEPS: Final = Field(
    rb"\bEpoch(?:\(train\))? {1,4}\[ {0,8}\d{1,9}\]\[ {0,14}\d{1,15}/", rb"\]"
)
_SECONDS: Final = Field(rb"[\s,]time: ")
_WAIT: Final = Field(rb"\bdata_time: ")
_LOSS: Final = Loss(rb"[\s,]loss: ")


def parse(line: bytes) -> Reading | None:
    """Read a record, or that the run was evaluated, which is none."""
    if _ASIDE.search(line):
        return Reading(step=-1, aside=1)
    match = _STEP.search(line)
    epoch = None
    if match is None:
        match = _EPOCH_STEP.search(line)
        if match is None:
            return None
        epoch = int(match[1])
    return Reading(
        epoch=epoch,
        step=int(match[match.re.groups]),
        epoch_steps=None if epoch is None else _EPOCH_STEPS.whole(line),
        total=_TOTAL.whole(line) if epoch is None else None,
        seconds=_SECONDS(line),
        data_wait_seconds=_WAIT(line),
        loss=_LOSS(line),
    )


FORMAT: Final = Format(
    name="mmseg",
    scope="process",
    averaging="window",
    unit="images",
    first_step=1,
    anchors=(b"data_time:", b"Iter(val)"),
    parse=parse,
    by_shape=True,
)
