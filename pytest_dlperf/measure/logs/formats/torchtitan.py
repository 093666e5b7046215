"""torchtitan: ``components/metrics.py``; tokens a second of one device since the last print.

Called ``wps`` in ``train.py`` of 2024. Validation has a line of the same kind that begins with
``validate step:``.
"""

from __future__ import annotations

from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Loss, Reading

_STEP: Final = Field(rb"\bstep: {1,12}")
_RATE: Final = Field(rb"\b(?:tps|wps): {1,12}")
_LOSS: Final = Loss(rb"\bloss: {1,12}")


def parse(line: bytes) -> Reading | None:
    """Read a record; what validation prints is none."""
    if b"validate step" in line:
        return None
    step = _STEP.whole(line)
    rate = _RATE(line)
    if step is None or rate is None:
        return None
    return Reading(step=step, rate=rate, loss=_LOSS(line))


FORMAT: Final = Format(
    name="torchtitan",
    scope="device",
    averaging="window",
    unit="tokens",
    first_step=1,
    counter="global",
    anchors=(b"tps:", b"wps:"),
    parse=parse,
    by_shape=True,
)
