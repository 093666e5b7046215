"""TensorFlow 2 official models: ``TimeHistory`` of ``official/utils/misc/keras_utils.py``.

In 2019 it printed ``BenchmarkMetric: {'global step':100, …}`` with the end of the window alone.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Reading

_STEPS: Final = re.compile(rb"between steps (\d{1,15}) and (\d{1,15})")
_STEP_2019: Final = re.compile(rb"'global step': ?(\d{1,15}),")
_RATE: Final = Field(rb"seconds, ", rb" examples/second")
_RATE_2019: Final = Field(rb"'examples_per_second': ")


def parse(line: bytes) -> Reading | None:
    """Read a record; absl and the TensorFlow logger may both print it, which is one record."""
    match = _STEPS.search(line)
    if match is None:
        match = _STEP_2019.search(line)
        return None if match is None else Reading(step=int(match[1]), rate=_RATE_2019(line))
    return Reading(start=int(match[1]), step=int(match[2]), rate=_RATE(line))


FORMAT: Final = Format(
    name="tf2-timehistory",
    scope="global",
    averaging="window",
    unit="images",
    first_step=1,
    counter="global",
    anchors=(b"TimeHistory:", b"BenchmarkMetric:"),
    parse=parse,
    by_shape=True,
    batch_of="global",
)
