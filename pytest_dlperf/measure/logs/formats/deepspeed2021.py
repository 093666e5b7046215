"""DeepSpeed before 0.7: ``0/40, SamplesPerSec=…`` of ``deepspeed/utils/timer.py``.

A running mean over all devices that leaves out two steps. With gradients accumulated a step is a
micro step, and only the mean has those between updates: ``CurrSamplesPerSec``, which came
before ``global_step`` did, is not used.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Reading

_STEP: Final = re.compile(rb"[\] ]\d{1,9}/(\d{1,15}), (?:RunningAvg)?SamplesPerSec=")
_RATE: Final = Field(rb", (?:RunningAvg)?SamplesPerSec=")


def parse(line: bytes) -> Reading | None:
    """Read a record.

    The mean runs on where an epoch begins and the counter does not: without an epoch such a log
    counts as several runs, and gives no number.
    """
    match = _STEP.search(line)
    return None if match is None else Reading(step=int(match[1]), rate=_RATE(line))


FORMAT: Final = Format(
    name="deepspeed2021",
    scope="global",
    averaging="running",
    running_since=3,
    unit="samples",
    first_step=1,
    counter="global",
    anchors=(b"SamplesPerSec=",),
    parse=parse,
    by_shape=True,
)
