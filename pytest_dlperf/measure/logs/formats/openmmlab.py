"""Formats of OpenMMLab's programs (mmsegmentation and others), by mmcv and by mmengine."""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.declare import (
    MIB,
    Field,
    Format,
    LogRecord,
    Loss,
    built_in,
    finite,
    json_count,
    json_loss,
    json_object,
    parser,
)

#: What mmcv's iteration timer counts as data of the iteration after it.
_EVALUATION: Final = re.compile(rb"\bIter\(val\) \[\d{1,15}\]")
_train_line = parser(
    re.compile(rb"\bIter(?:\(train\))? {1,4}\[ {0,14}(?P<step>\d{1,15})/(?P<total>\d{1,15})\]"),
    re.compile(
        rb"\bEpoch(?:\(train\))? {1,4}\[ {0,8}(?P<epoch>\d{1,9})\]"
        rb"\[ {0,14}(?P<step>\d{1,15})/(?P<epoch_steps>\d{1,15})\]"
    ),
    seconds=Field(rb"[\s,]time: "),
    data_wait_seconds=Field(rb"\bdata_time: "),
    loss=Loss(rb"[\s,]loss: "),
    grad_norm=Loss(rb"[\s,]grad_norm: "),
    memory_bytes=Field(rb"[\s,]memory: ", per=MIB),
)


def _text(line: bytes) -> LogRecord | None:
    """Read a line of training, or that the run was evaluated."""
    return LogRecord(step=-1, aside=1) if _EVALUATION.search(line) else _train_line(line)


def _json(line: bytes) -> LogRecord | None:
    """Read a record; one of validation has another mode, or no loss."""
    record = json_object(line)
    if record is None:
        return None
    if record.get("mode", "train") != "train":
        # Only an evaluation takes time of training's next iteration; a validation loss does not.
        return None if "data_time" in record else LogRecord(step=-1, aside=1)
    runs_on = "step" in record
    seconds = finite(record.get("time"))
    step = json_count(record.get("step" if runs_on else "iter"))
    if seconds is None or step is None or "iter" not in record or "loss" not in record:
        return None
    epoch = None if runs_on else finite(record.get("epoch"))
    memory = json_count(record.get("memory"))
    return LogRecord(
        epoch=None if epoch is None or not 0 <= epoch < 1e9 else int(epoch),
        step=int(step),
        seconds=seconds,
        data_wait_seconds=finite(record.get("data_time")),
        loss=json_loss(record.get("loss")),
        grad_norm=json_loss(record.get("grad_norm")),
        memory_bytes=None if memory is None else memory / MIB,
    )


FORMATS: Final = built_in(
    # Seconds of an iteration over a window, validation apart. ``Iter [50/40000]`` by
    # ``mmcv/runner/hooks/logger/text.py``, and ``Iter(train) [  50/40000]`` by
    # ``mmengine/runner/log_processor.py``, whose window is the last ``window_size`` iterations. In
    # mmcv ``data_time`` is all since the iteration before, an evaluation too.
    Format(
        name="mmseg",
        framework="torch",
        scope="process",
        averaging="window",
        unit="images",
        first_step=1,
        anchors=(b"data_time:", b"Iter(val)"),
        parse=_text,
    ),
    # ``.log.json`` of mmcv (``mmcv/runner/hooks/logger/text.py``) has ``{"mode": "train", "epoch":
    # 1, "iter": 50, …}``: ``iter`` restarts with an epoch, or does not, by the runner.
    # ``scalars.json`` of ``mmengine/visualization`` adds ``step``, which runs on.
    Format(
        name="mmcv-json",
        framework="torch",
        scope="process",
        averaging="window",
        unit="images",
        first_step=1,
        counter="either",
        anchors=(b'"data_time":', b'"mode": "val"'),
        parse=_json,
    ),
)
