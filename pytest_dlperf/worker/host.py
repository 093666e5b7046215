"""CPU seconds of this rank and of everybody on its host (Linux; elsewhere unknown)."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple


class HostSample(NamedTuple):
    """Counters at one moment; differences of two say what happened between them."""

    wall_s: float
    #: CPU seconds of this process and its living descendants.
    own_cpu_s: float
    #: CPU seconds of what started this rank, up to the run's supervisor, without other ranks:
    #: the same for the ranks of a node.
    launcher_cpu_s: float
    #: CPU seconds that all cores were busy, and that the hypervisor took away; None off Linux.
    host_busy_s: float | None
    host_steal_s: float | None


def sample() -> HostSample:
    """Return the counters now."""
    busy_s, steal_s = _host()
    return HostSample(
        time.perf_counter(),
        _own_tree_cpu_s(),
        sum(_process_cpu_s(pid) for pid in _ancestors(os.getppid())),
        busy_s,
        steal_s,
    )


def window_record(before: HostSample, after: HostSample) -> dict[str, float | None]:
    """Return what happened between two samples, as the record ``window`` has it."""

    def difference(name: str) -> float | None:
        first, last = getattr(before, name), getattr(after, name)
        return None if first is None or last is None else last - first

    return {
        "seconds": after.wall_s - before.wall_s,
        "own_cpu_seconds": after.own_cpu_s - before.own_cpu_s,
        "launcher_cpu_seconds": after.launcher_cpu_s - before.launcher_cpu_s,
        "host_busy_seconds": difference("host_busy_s"),
        "host_steal_seconds": difference("host_steal_s"),
    }


def boot_id() -> str | None:
    """Return what tells this machine, since it was started, from others; None off Linux.

    Nodes that are containers of one machine have the same.
    """
    try:
        path = Path("/proc/sys/kernel/random/boot_id")
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return None


def pid_namespace() -> str:
    """Return what tells this container's process numbers from others'; empty off Linux."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _host() -> tuple[float | None, float | None]:
    try:
        first = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0]
    except OSError:
        return None, None  # not Linux: unknown, and recorded as unknown
    # proc(5): user nice system idle iowait irq softirq steal guest guest_nice, in ticks.
    # Interrupts are left out: those of the loopback network are the ranks' own work, and
    # no process is charged for them.
    words = [int(word) for word in first.split()[1:9]]
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    return sum(words[:3]) * tick_s, words[7] * tick_s


def _own_tree_cpu_s() -> float:
    """Own CPU seconds, with those of descendants: the living, and those that were waited for."""
    times = os.times()
    ended_s = times.children_user + times.children_system
    return (
        time.process_time()
        + ended_s
        + sum(_process_cpu_s(pid) for pid in _descendants(os.getpid()))
    )


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        for thread in threads:
            for child in (thread / "children").read_text(encoding="ascii").split():
                found += [int(child), *_descendants(int(child))]
    except OSError:
        return found  # not Linux, or the process ended while we looked
    return found


def _ancestors(pid: int) -> list[int]:
    """Return ``pid`` and what it descends from, as far as its environment names this run."""
    found: list[int] = []
    run = f"DLPERF_RUN={os.environ.get('DLPERF_RUN', '')}".encode()
    try:
        while run in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            found.append(pid)
            pid = int(_stat(pid)[1])
    except OSError:
        return found  # not Linux, or somebody else's: a system's own launcher
    return found


def _process_cpu_s(pid: int) -> float:
    try:
        fields = _stat(pid)
    except OSError:
        return 0.0  # it ended while we looked
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """Return the fields of proc(5)'s stat from the third, the state, on."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
