"""Which processes of a run stand still between turns; all nodes of a lab are on this host."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

#: Variables that have a rank's number.
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK")


class Process(NamedTuple):
    """A process of a run, by the pid that this host knows it by."""

    pid: int
    name: str
    #: Folder of its run, and its rank, where it has them.
    run: str
    rank: str

    @property
    def stands(self) -> bool:
        """Whether it is stopped, or in a cgroup that is frozen."""
        try:
            text = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8", errors="replace")
            if text.rpartition(")")[2].split()[0] in "Tt":
                return True
            groups = Path(f"/proc/{self.pid}/cgroup").read_text(encoding="utf-8").splitlines()
            folder = next(line[3:] for line in groups if line.startswith("0::"))
            mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
            root = next(place for _, place, kind, *_ in mounts if kind == "cgroup2")
            return "frozen 1" in Path(f"{root}{folder}/cgroup.events").read_text(encoding="ascii")
        except (OSError, StopIteration):
            return False


def processes(folder: Path) -> Iterator[Process]:
    """Yield the processes of the runs in ``folder``, of all nodes."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            texts = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
            variables = dict(text.partition("=")[::2] for text in texts)
            run = variables.get("DLPERF_RUN", "")
            if run.startswith(f"{folder}/"):
                name = (entry / "comm").read_text(encoding="utf-8").strip()
                yield Process(
                    int(entry.name), name, run, next(filter(None, map(variables.get, _RANKS)), "")
                )


def parent_of(pid: int) -> int:
    """Return the parent of a process."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return int(text.rpartition(")")[2].split()[1])


def await_frozen(
    folder: Path, ranks: int, *, check: Callable[[], None] = lambda: None, within_s: float = 120.0
) -> dict[str, Process]:
    """Wait until so many ranks of one run in ``folder`` stand still; return them by number.

    ``check`` is called meanwhile, and raises if there is nothing to wait for any more.
    """
    end_s = time.monotonic() + within_s
    while time.monotonic() < end_s:
        check()
        runs: dict[str, dict[str, Process]] = {}
        for process in processes(folder):
            if process.rank and process.stands:
                runs.setdefault(process.run, {})[process.rank] = process
        for frozen in runs.values():
            if len(frozen) == ranks:
                return frozen
    raise AssertionError("no run stood still")
