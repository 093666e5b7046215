"""mmsegmentation and its kin, as JSON: ``.log.json`` of mmcv and ``scalars.json`` of mmengine.

``mmcv/runner/hooks/logger/text.py`` writes ``{"mode": "train", "epoch": 1, "iter": 50, …}``:
``iter`` starts anew with an epoch, or does not, by the runner. ``mmengine/visualization`` adds
``step``, which runs on.
"""

from __future__ import annotations

import json
from typing import Final

from pytest_dlperf.measure.logs.declare import Format, Reading, finite, json_loss


def parse(line: bytes) -> Reading | None:
    """Read a record; one of validation has another mode, or no loss."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    if record.get("mode", "train") != "train":
        # Validation that is no evaluation has a time of its own.
        return None if "data_time" in record else Reading(step=-1, aside=1)
    seconds, loss = finite(record.get("time")), json_loss(record.get("loss"))
    runs_on = "step" in record
    step = finite(record.get("step" if runs_on else "iter"))
    if seconds is None or step is None or "iter" not in record or "loss" not in record:
        return None
    if not 0 <= step < 1e15:
        return None
    epoch = None if runs_on else finite(record.get("epoch"))
    return Reading(
        epoch=None if epoch is None or not 0 <= epoch < 1e9 else int(epoch),
        step=int(step),
        seconds=seconds,
        data_wait_seconds=finite(record.get("data_time")),
        loss=loss,
    )


FORMAT: Final = Format(
    name="mmcv-json",
    scope="process",
    averaging="window",
    unit="images",
    first_step=1,
    counter="either",
    anchors=(b'"data_time":', b'"mode": "val"'),
    parse=parse,
    by_shape=True,
)
