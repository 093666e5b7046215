"""PaddleNLP Transformer: ``examples/machine_translation/transformer/static/train.py``.

``tokens`` counts the window, not one iteration.
"""

from __future__ import annotations

from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Loss, Reading

_STEP: Final = Field(rb"\bstep_idx: ", rb",")
_RATE: Final = Field(rb"\bips: ")
_SECONDS: Final = Field(rb"\bbatch_cost: ")
_EPOCH: Final = Field(rb"\bepoch: ", rb",")
_WAIT: Final = Field(rb"\breader_cost: ")
_LOSS: Final = Loss(rb"\bavg loss: ")


def parse(line: bytes) -> Reading | None:
    """Read a record; the first line has no speed and marks where the first window starts."""
    step = _STEP.whole(line)
    if step is None:
        return None
    return Reading(
        epoch=_EPOCH.whole(line),
        step=step,
        rate=_RATE(line),
        seconds=_SECONDS(line),
        data_wait_seconds=_WAIT(line),
        loss=_LOSS(line),
    )


FORMAT: Final = Format(
    name="paddlenlp-transformer",
    scope="device",
    averaging="window",
    unit="tokens",
    counter="global",
    anchors=(b"step_idx:",),
    parse=parse,
    by_shape=True,
)
