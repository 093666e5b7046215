"""NGC TensorFlow 1 ResNet-50 of 2021: NVLOG lines of ``benchmark_hooks.py``.

The iteration stands on one line and its rate on the next; iterations that warm up are not
printed.
"""

from __future__ import annotations

from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Reading

_STEP: Final = Field(rb"\biteration: ")
_RATE: Final = Field(rb"\btotal_ips: ")


def parse(line: bytes) -> Reading | None:
    """Read half a record: the common layer joins a step with the rate that follows it."""
    step = _STEP.whole(line)
    rate = _RATE(line)
    if step is None and rate is None:
        return None
    return Reading(step=-1 if step is None else step, rate=rate)


FORMAT: Final = Format(
    name="ngc-nvlog",
    scope="global",
    averaging="window",
    unit="images",
    anchors=(b":::NVLOG",),
    parse=parse,
    by_shape=True,
    warmup_removed=True,
    counter="global",
    two_lines=True,
)
