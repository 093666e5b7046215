"""The process and its host: the record ``start``, and CPU seconds (Linux; unknown elsewhere)."""

from __future__ import annotations

import os
import platform
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pytest_dlperf.core.wire import RECORDS_FORMAT
from pytest_dlperf.core.wire_records import StartRecord, WindowRecord


class HostSample(NamedTuple):
    """CPU seconds so far, at one moment."""

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


def window(before: HostSample, after: HostSample, *, inject: float) -> WindowRecord:
    """Return the record ``window`` of the time between two samples, without its end."""
    return WindowRecord(
        seconds=after.wall_s - before.wall_s,
        own_cpu_seconds=after.own_cpu_s - before.own_cpu_s,
        launcher_cpu_seconds=after.launcher_cpu_s - before.launcher_cpu_s,
        host_busy_seconds=_difference(before.host_busy_s, after.host_busy_s),
        host_steal_seconds=_difference(before.host_steal_s, after.host_steal_s),
        inject=inject,
    )


def together(parts: Sequence[WindowRecord]) -> WindowRecord:
    """Return the record ``window`` of a window that was run in turns: the sums over its parts."""
    return WindowRecord(
        seconds=sum(part["seconds"] for part in parts),
        own_cpu_seconds=sum(part["own_cpu_seconds"] for part in parts),
        launcher_cpu_seconds=sum(part["launcher_cpu_seconds"] for part in parts),
        host_busy_seconds=_sum([part["host_busy_seconds"] for part in parts]),
        host_steal_seconds=_sum([part["host_steal_seconds"] for part in parts]),
        inject=parts[0]["inject"],
    )


def _sum(values_s: Sequence[float | None]) -> float | None:
    known = [value for value in values_s if value is not None]
    return sum(known) if len(known) == len(values_s) else None


def _difference(before_s: float | None, after_s: float | None) -> float | None:
    return None if before_s is None or after_s is None else after_s - before_s


def start_record(local_rank: int, world_size: int) -> StartRecord:
    """Return the record ``start`` of this process, a rank of ``world_size``."""
    return StartRecord(
        format=RECORDS_FORMAT,
        local_rank=local_rank,
        world_size=world_size,
        pid=os.getpid(),
        pid_namespace=pid_namespace(),
        node=socket.gethostname(),
        boot=boot_id(),
        cores=os.cpu_count(),
        python=platform.python_version(),
        time=time.time(),
    )


def boot_id() -> str | None:
    """Return the number of this machine's last start, which no other machine has.

    Nodes that are containers of one machine have the same. None off Linux.
    """
    try:
        path = Path("/proc/sys/kernel/random/boot_id")
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return None


def pid_namespace() -> str:
    """Return the name of the PID namespace that process numbers belong to; empty off Linux."""
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
    """Return own CPU seconds, with those of descendants: living ones, and ended ones."""
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
    """Return ``pid`` and what it descends from, as long as their environment names this run."""
    found: list[int] = []
    run = f"DLPERF_RUN={os.environ.get('DLPERF_RUN', '')}".encode()
    try:
        while run in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            found.append(pid)
            pid = int(_stat(pid)[1])
    except OSError:
        return found  # not Linux, or another user's process: a system's own launcher
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
