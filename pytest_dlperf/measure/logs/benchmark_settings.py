"""What benchmarks of a framework print of their batch and devices before their first step.

Horovod's synthetic benchmarks: https://github.com/horovod/horovod/tree/master/examples
TensorFlow's tf_cnn_benchmarks:
https://github.com/tensorflow/benchmarks/blob/master/scripts/tf_cnn_benchmarks/benchmark_cnn.py
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

#: The batch of a device, and the devices, on the next line.
_HOROVOD: Final = re.compile(
    rb"^Batch size: (?P<batch>[1-9]\d{0,8})\n"
    rb"[^\n]{0,16}Number of [A-Z]{3}s: (?P<devices>[1-9]\d{0,5})$",
    re.MULTILINE,
)
#: The batch of all devices, and below it that of one.
_CNN: Final = re.compile(
    rb"\bBatch size: {1,4}(?P<all>[1-9]\d{0,8}) global\s{1,80}(?:\S{1,80}\s{1,40}){0,2}?"
    rb"(?P<batch>[1-9]\d{0,8})(?:\.0)? per device"
)


#: Devices of one worker of several.
_WORKER: Final = re.compile(rb"\bDevices: {1,8}\[(?P<devices>'/job:worker[^\]\n]{1,4000})\]")


class Sizes(NamedTuple):
    """The batch of a device, and the number of devices; of a worker where there are several."""

    batch: int
    devices: int
    node_devices: int | None = None


def sizes(block: bytes) -> Sizes | None:
    """Return what a block says of the sizes of a benchmark; None if it says nothing."""
    if b"Batch size: " not in block:
        return None
    if match := _HOROVOD.search(block):
        return Sizes(int(match["batch"]), int(match["devices"]))
    match = _CNN.search(block)
    if match is None or int(match["all"]) % int(match["batch"]):
        return None
    worker = _WORKER.search(block)
    return Sizes(
        int(match["batch"]),
        int(match["all"]) // int(match["batch"]),
        None if worker is None else worker["devices"].count(b",") + 1,
    )
