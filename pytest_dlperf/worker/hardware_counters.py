"""Instructions and cycles of a rank, where the kernel lets one count (perf_event_open(2)).

What a neighbour takes from the training costs seconds, and no instruction. Counted is user space,
of this process, and of the threads and processes that it starts after the counters are open.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
import sys
from collections.abc import Mapping
from typing import Final, NamedTuple


class Event(NamedTuple):
    """An event that the kernel counts: the numbers ``type`` and ``config`` of its attributes."""

    type: int
    config: int


#: PERF_TYPE_HARDWARE with PERF_COUNT_HW_INSTRUCTIONS, and with PERF_COUNT_HW_CPU_CYCLES.
HARDWARE: Final[Mapping[str, Event]] = {"instructions": Event(0, 1), "cycles": Event(0, 0)}

#: Of perf_event_open in the kernel's tables of system calls.
_SYSTEM_CALL: Final = {"x86_64": 298, "aarch64": 241, "riscv64": 241}
#: PERF_ATTR_SIZE_VER0, which every kernel takes: type, size, config, sample_period, sample_type,
#: read_format, flags, wakeup_events, bp_type, config1.
_ATTRIBUTES: Final = struct.Struct("=IIQQQQQIIQ")
#: PERF_FORMAT_TOTAL_TIME_ENABLED and PERF_FORMAT_TOTAL_TIME_RUNNING.
_WITH_TIMES: Final = 1 | 2
#: inherit, exclude_kernel and exclude_hv: what an unprivileged process may count.
_FLAGS: Final = 1 << 1 | 1 << 5 | 1 << 6
_CLOSE_ON_EXEC: Final = 8
_READ: Final = struct.Struct("=QQQ")


class Count(NamedTuple):
    """A counter at one moment."""

    value: int
    #: How long it was asked for, and how long it had one of the CPU's counters, in nanoseconds
    #: over all threads: others that count on the same machine take turns with it.
    enabled_ns: int
    running_ns: int


_OPEN: Final[dict[str, int]] = {}


def open_counters(events: Mapping[str, Event] = HARDWARE) -> None:
    """Begin to count; before the framework is imported, whose threads would not be counted.

    Where there are none (off Linux, in most virtual machines and containers), nothing is counted.
    """
    number = _SYSTEM_CALL.get(platform.machine())
    if sys.platform != "linux" or number is None:
        return
    system_call = ctypes.CDLL(None).syscall
    for name, event in events.items():
        attributes = _ATTRIBUTES.pack(
            event.type, _ATTRIBUTES.size, event.config, 0, 0, _WITH_TIMES, _FLAGS, 0, 0, 0
        )
        # Of this process, on every CPU, in no group
        numbers = map(ctypes.c_long, (0, -1, -1, _CLOSE_ON_EXEC))
        descriptor = system_call(ctypes.c_long(number), attributes, *numbers)
        if descriptor >= 0:
            _OPEN[name] = descriptor


def close_counters() -> None:
    """End counting."""
    for descriptor in _OPEN.values():
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _OPEN.clear()


def read() -> dict[str, Count]:
    """Return the counters now: none where nothing is counted."""
    return {
        name: Count(*_READ.unpack(os.read(descriptor, _READ.size)))
        for name, descriptor in _OPEN.items()
    }


def counted(before: Mapping[str, Count], after: Mapping[str, Count]) -> dict[str, float]:
    """Return what was counted between two moments, by name.

    A counter that had to share the CPU's is extrapolated to the whole time, as perf-stat(1) does;
    one that never had its turn is left out.
    """
    counts = {}
    for name, end in after.items():
        begin = before[name]
        running_ns = end.running_ns - begin.running_ns
        if running_ns > 0:
            share = (end.enabled_ns - begin.enabled_ns) / running_ns
            counts[name] = (end.value - begin.value) * share
    return counts
