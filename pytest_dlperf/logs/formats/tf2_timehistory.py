"""TensorFlow 2 official models: ``TimeHistory`` of ``official/utils/misc/keras_utils.py``."""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.logs.declare import Field, Format, Reading

_STEPS: Final = re.compile(rb"between steps (\d{1,15}) and (\d{1,15})")
_RATE: Final = Field(rb"seconds, ", rb" examples/second")


def parse(line: bytes) -> Reading | None:
    """Read a record; absl and the TensorFlow logger may both print it, which is one record."""
    match = _STEPS.search(line)
    if match is None:
        return None
    return Reading(start=int(match[1]), step=int(match[2]), rate=_RATE(line))


FORMAT: Final = Format(
    name="tf2-timehistory",
    scope="global",
    averaging="window",
    unit="images",
    first_step=1,
    counter="global",
    anchors=(b"TimeHistory:",),
    parse=parse,
    by_shape=True,
)
