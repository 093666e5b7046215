"""NGC TensorFlow 1 BERT: DLLogger lines of ``run_pretraining.py``.

``Iteration`` stands still while the loss scaler skips updates; the work is done all the same.
"""

from __future__ import annotations

from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Loss, Reading

_STEP: Final = Field(rb"(?:\bIteration: |\"step\": ?\[?)", rb"[ \]]")
_RATE: Final = Field(rb"\bthroughput_train(?: : |\": ?)")
_LOSS: Final = Loss(rb"\btotal_loss(?: : |\": ?)")


def parse(line: bytes) -> Reading | None:
    """Read a record."""
    step = _STEP.whole(line)
    rate = _RATE(line)
    if step is None or rate is None:
        return None
    return Reading(step=step, rate=rate, loss=_LOSS(line))


FORMAT: Final = Format(
    name="ngc-tensorflow-bert",
    scope="global",
    averaging="iteration",
    unit="sequences",
    first_step=1,
    anchors=(b"throughput_train",),
    parse=parse,
    by_shape=True,
    counter="stalls",
)
