"""torchtitan: ``components/metrics.py``; tokens a second of one device since the last print."""

from __future__ import annotations

from typing import Final

from pytest_dlperf.logs.declare import Field, Format, Loss, Reading

_STEP: Final = Field(rb"\bstep: {1,12}")
_RATE: Final = Field(rb"\btps: {1,12}")
_LOSS: Final = Loss(rb"\bloss: {1,12}")


def parse(line: bytes) -> Reading | None:
    """Read a record."""
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
    anchors=(b"tps:",),
    parse=parse,
    by_shape=True,
)
