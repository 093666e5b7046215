"""How long a program took by itself: without what a busy machine withheld from it."""

from __future__ import annotations

import os
import time
from pathlib import Path


class OwnTime:
    """Time from now on, less that for which some process waited for a CPU or a disk.

    A bound in seconds is the program's own then, and no test of how busy the machine is. Where the
    kernel does not count such waits (proc(5), ``/proc/pressure``), it is the time of the clock.
    """

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._withheld_before_s = _withheld_s()

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began_s

    @property
    def own_s(self) -> float:
        return max(0.0, self.elapsed_s - (_withheld_s() - self._withheld_before_s))


def _withheld_s() -> float:
    """Return for how long some process of the host has waited, and what a hypervisor took."""
    waited_us = 0
    for resource in ("cpu", "io"):
        try:
            some = Path(f"/proc/pressure/{resource}").read_text(encoding="ascii").split("\n", 1)[0]
        except OSError:
            continue
        waited_us += int(some.rpartition("total=")[2])
    try:
        processors = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    except OSError:
        return waited_us / 1e6
    return waited_us / 1e6 + int(processors[8]) / os.sysconf("SC_CLK_TCK")
