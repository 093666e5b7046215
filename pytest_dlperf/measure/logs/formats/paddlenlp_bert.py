"""PaddleNLP BERT: ``run_pretrain.py``, static and dynamic, in three spellings.

``total step``, the ``tobal step`` of 2021, and ``global step`` of 2020 with ``ips :``. GPT's
lines are like the last, but their ``tokens/s`` are of one device or of all by the version.
"""

from __future__ import annotations

from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Loss, Reading

_STEP: Final = Field(rb"\b(?:to[tb]al step:|global step) ", rb",")
_RATE: Final = Field(rb"\bips ?: ?", rb" sequences/s")
_SECONDS: Final = Field(rb"\bavg_batch_cost: ")
_WAIT: Final = Field(rb"\bavg_reader_cost: ")
_LOSS: Final = Loss(rb"\bloss: ")


def parse(line: bytes) -> Reading | None:
    """Read a record."""
    step = _STEP.whole(line)
    rate = _RATE(line)
    if step is None or rate is None:
        return None
    return Reading(
        step=step,
        rate=rate,
        seconds=_SECONDS(line),
        data_wait_seconds=_WAIT(line),
        loss=_LOSS(line),
    )


FORMAT: Final = Format(
    name="paddlenlp-bert",
    scope="device",
    averaging="window",
    unit="sequences",
    first_step=1,
    counter="global",
    anchors=(b"total step:", b"tobal step:", b"global step "),
    parse=parse,
    by_shape=True,
)
