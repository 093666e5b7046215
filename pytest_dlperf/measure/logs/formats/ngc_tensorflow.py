"""NGC TensorFlow 1 ResNet-50: ``runtime/runner_utils.py`` hooks, as text of DLLogger and as JSON.

The first 200 iterations are not printed: warm-up of its own.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Reading

_STEP: Final = re.compile(rb"(?:- \(|\"step\": ?\[)(\d{1,9}), ?(\d{1,15})[)\]]")
_RATE: Final = Field(rb"\btotal_ips(?: ?: |\": ?)")


def parse(line: bytes) -> Reading | None:
    """Read a record."""
    match = _STEP.search(line)
    rate = _RATE(line)
    if match is None or rate is None:
        return None
    return Reading(epoch=int(match[1]), step=int(match[2]), rate=rate)


FORMAT: Final = Format(
    name="ngc-tensorflow",
    scope="global",
    averaging="window",
    unit="images",
    anchors=(b") total_ips :", b'{"total_ips":'),
    parse=parse,
    by_shape=True,
    warmup_removed=True,
)
