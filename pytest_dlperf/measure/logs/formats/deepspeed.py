"""DeepSpeed: ``ThroughputTimer`` of ``deepspeed/utils/timer.py``.

``CurrSamplesPerSec`` is the global batch over the time of the printed step; the running mean
beside it starts with the second step and is not used.
"""

from __future__ import annotations

from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Reading

_STEP: Final = Field(rb"/global_step=")
_RATE: Final = Field(rb"\bCurrSamplesPerSec=")


def parse(line: bytes) -> Reading | None:
    """Read a record."""
    step = _STEP.whole(line)
    rate = _RATE(line)
    return None if step is None or rate is None else Reading(step=step, rate=rate)


FORMAT: Final = Format(
    name="deepspeed",
    scope="global",
    averaging="iteration",
    unit="samples",
    first_step=1,
    counter="global",
    anchors=(b"CurrSamplesPerSec=",),
    parse=parse,
    by_shape=True,
)
