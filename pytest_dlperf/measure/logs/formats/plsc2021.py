"""PLSC of 2021, dynamic: ``utils/logging.py``, after insightface's ``utils_callbacks.py``.

``throughput`` is that of all devices since the last print, and every rank prints it. Insightface
itself (``recognition/arcface_torch``) has ``Speed … samples/sec`` and ``Global Step:``.
"""

from __future__ import annotations

from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Loss, Reading

_STEP: Final = Field(rb"(?:, step: |\bGlobal Step: {0,4})")
_RATE: Final = Field(rb"(?:, throughput: |-Speed )", rb" (?:imgs|samples)/sec")
_LOSS: Final = Loss(rb"\b[Ll]oss ")


def parse(line: bytes) -> Reading | None:
    """Read a record."""
    step = _STEP.whole(line)
    rate = _RATE(line)
    return (
        None if step is None or rate is None else Reading(step=step, rate=rate, loss=_LOSS(line))
    )


FORMAT: Final = Format(
    name="plsc2021",
    scope="global",
    averaging="window",
    unit="images",
    first_step=1,
    counter="global",
    anchors=(b" imgs/sec", b" samples/sec   Loss "),
    parse=parse,
    by_shape=True,
)
