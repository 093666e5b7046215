"""The records ``start``, ``window`` (CPU seconds) and ``imports`` of a rank's process."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import socket
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pytest_dlperf.core.wire import MODULES_VARIABLE, RECORDS_FORMAT, TREES_VARIABLE
from pytest_dlperf.core.wire_records import ImportedCopy, ImportsRecord, StartRecord, WindowRecord
from pytest_dlperf.worker import hardware_counters, read_files
from pytest_dlperf.worker.hardware_counters import Count


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
    #: Instructions and cycles, where they are counted.
    counts: Mapping[str, Count]


def sample() -> HostSample:
    """Return the counters now."""
    busy_s, steal_s = _host()
    return HostSample(
        time.perf_counter(),
        own_tree_cpu_s(),
        sum(_process_cpu_s(pid) for pid in _ancestors(os.getppid())),
        busy_s,
        steal_s,
        hardware_counters.read(),
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
        counted=hardware_counters.counted(before.counts, after.counts),
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
        counted={
            name: sum(part["counted"][name] for part in parts)
            for name in parts[0]["counted"]
            if all(name in part["counted"] for part in parts)
        },
    )


def _sum(values_s: Sequence[float | None]) -> float | None:
    seconds = [value for value in values_s if value is not None]
    return sum(seconds) if len(seconds) == len(values_s) else None


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


def own_tree_cpu_s() -> float:
    """Return own CPU seconds, with those of descendants: living ones, and ended ones."""
    times = os.times()
    ended_s = times.children_user + times.children_system
    return (
        time.process_time()
        + ended_s
        + sum(_process_cpu_s(pid) for pid in _descendants(os.getpid()))
    )


def _descendants(pid: int) -> list[int]:
    pids: list[int] = []
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        for thread in threads:
            for child in (thread / "children").read_text(encoding="ascii").split():
                pids += [int(child), *_descendants(int(child))]
    except OSError:
        return pids  # not Linux, or the process ended while we looked
    return pids


def _ancestors(pid: int) -> list[int]:
    """Return ``pid`` and what it descends from, as long as their environment names this run."""
    pids: list[int] = []
    run = os.fsencode(f"DLPERF_RUN={os.environ.get('DLPERF_RUN', '')}")
    try:
        while run in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            pids.append(pid)
            pid = int(_stat(pid)[1])
    except OSError:
        return pids  # not Linux, or another user's process: a system's own launcher
    return pids


def _process_cpu_s(pid: int) -> float:
    try:
        fields = _stat(pid)
    except OSError:
        return 0.0  # it ended while we looked
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """Return the fields of proc(5)'s stat from the third, the state, on."""
    return (
        Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
    )


_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
#: Folders of what torch.compile and Triton generate.
_OF_COMPILER: Final = re.compile(r"torchinductor.*|\.triton").fullmatch
_STARTERS: Final = tuple(
    f"multiprocessing.popen_{kind}" for kind in ("fork", "spawn_posix", "forkserver")
)
_PACKAGE: Final = Path(__file__).resolve().parents[1]


def watch_reads() -> None:
    """Watch from now on which files of the trees are read, where the environment names trees."""
    read_files.watch(_trees())


def _trees() -> list[str]:
    trees = os.environ.get(TREES_VARIABLE, "").split(os.pathsep)
    return [str(Path(tree).resolve()) for tree in trees if tree]


def imported() -> ImportsRecord | None:
    """Return what was imported from the trees; None if the environment names none.

    An editable install is found by its file. A virtual environment below a tree does not belong
    to the tree. ``copies`` has the packages and modules from elsewhere which the repository has
    somewhere as well, ``outside`` the files of modules that are nobody's to compare.
    """
    if TREES_VARIABLE not in os.environ:
        return None
    trees = [Path(tree) for tree in _trees()]
    read, has_more = read_files.read_files()
    files: dict[str, str] = {}
    elsewhere: list[tuple[Path, tuple[str, ...]]] = []
    for name, path in _modules():
        is_installed = bool(_INSTALLED.intersection(path.parts))
        if not is_installed and any(path.is_relative_to(tree) for tree in trees):
            if path.is_file():
                files[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif not path.is_relative_to(_PACKAGE):
            elsewhere.append((path, _below(path, name)))
    return ImportsRecord(
        files=files,
        copies=_copies(elsewhere),
        outside=sorted({str(path) for path, _ in elsewhere if not _is_made(path)}),
        read=sorted({str(Path(path).resolve()) for path in read}),
        started_processes=has_children() or has_more,
    )


def _is_made(path: Path) -> bool:
    """Return whether a file is installed, or generated by a compiler while it runs."""
    if _INSTALLED.intersection(path.parts) or any(map(_OF_COMPILER, path.parts)):
        return True
    folders = (tempfile.gettempdir(), sysconfig.get_path("scripts"))
    return any(path.is_relative_to(Path(folder).resolve()) for folder in folders)


def has_children() -> bool:
    """Return whether this process started others that may have imported more: data loaders do."""
    # ``multiprocessing`` imports one of these when it starts its first process.
    return any(name in sys.modules for name in _STARTERS)


def _modules() -> Iterator[tuple[str, Path]]:
    """Yield name and file of every module that is not of the standard library."""
    library = Path(sysconfig.get_path("stdlib")).resolve()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str):
            continue
        path = Path(file).resolve()
        if path.is_relative_to(library) and not _INSTALLED.intersection(path.parts):
            continue
        spec = getattr(module, "__spec__", None)
        yield str(getattr(spec, "name", "") or getattr(module, "__name__", "")), path


def _below(path: Path, name: str) -> tuple[str, ...]:
    """Return the parts of ``path`` below the folder that contains the module's top level."""
    installed = [index for index, part in enumerate(path.parts) if part in _INSTALLED]
    if installed:
        return path.parts[installed[-1] + 1 :]
    is_package = path.name.partition(".")[0] == "__init__"
    parents = name.split(".") if is_package else name.split(".")[:-1]
    below = (*parents, path.name)
    return below if path.parts[-len(below) :] == below else ()


def _copies(elsewhere: list[tuple[Path, tuple[str, ...]]]) -> dict[str, ImportedCopy]:
    by_name: dict[str, list[str]] = {}
    if listing := os.environ.get(MODULES_VARIABLE):
        for line in (
            Path(listing).read_text(encoding="utf-8", errors="surrogateescape").split("\n")
        ):
            by_name.setdefault(line.rpartition("/")[2], []).append(line)
    copies: dict[str, ImportedCopy] = {}
    # One file may be several modules.
    for path, below in dict.fromkeys(elsewhere):
        if not below:
            continue
        top = str(path.parents[len(below) - 2]) if len(below) > 1 else str(path)
        copy = copies.setdefault(top, ImportedCopy(files=0, compiled=False, roots={}))
        is_python = path.suffix == ".py"
        copy["files"] += is_python
        copy["compiled"] |= not is_python
        tail = "/".join(below)
        for name in by_name.get(path.name, ()) if is_python else ():
            if f"/{name}".endswith(f"/{tail}"):
                root = name[: len(name) - len(tail)] + below[0]
                copy["roots"][root] = copy["roots"].get(root, 0) + 1
    return {top: copy for top, copy in copies.items() if copy["roots"]}
