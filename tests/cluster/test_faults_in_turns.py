"""Faults of a pair on two nodes, each injected while both nodes of one arm stand still."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cluster.test_turns import PAIR
from tests.helpers.cluster import Cluster

pytestmark = pytest.mark.torch
WAIT_S = 120.0


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


def processes(path: Path) -> Iterator[Process]:
    """Yield the processes of the runs in ``path``, of all nodes."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            texts = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
            variables = dict(text.partition("=")[::2] for text in texts)
            run = variables.get("DLPERF_RUN", "")
            if run.startswith(f"{path}/"):
                name = (entry / "comm").read_text(encoding="utf-8").strip()
                yield Process(int(entry.name), name, run, variables.get("RANK", ""))


def parent(pid: int) -> int:
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return int(text.rpartition(")")[2].split()[1])


class Pair:
    """A pair whose turns last a second, from when all ranks of one of its arms stand still."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        cluster.write(iterations=42, warmup=2, options={"pace_s": 0.2})
        self.session = cluster.start(*PAIR)
        self.frozen = self._await_frozen()

    def _await_frozen(self) -> dict[str, Process]:
        end_s = time.monotonic() + WAIT_S
        while time.monotonic() < end_s:
            assert self.session.poll() is None, self.session.communicate()[0]
            arms: dict[str, dict[str, Process]] = {}
            for process in processes(self.cluster.path):
                if process.rank and process.stands:
                    arms.setdefault(process.run, {})[process.rank] = process
            for ranks in arms.values():
                if set(ranks) == {"0", "1"}:
                    return ranks
        raise AssertionError("no arm stood still")

    def ends(self, says: str) -> None:
        """Check that the pair is an error that says so, and that nothing is left of it."""
        output = self.session.communicate(timeout=WAIT_S)[0]
        [outcome] = self.cluster.outcomes()
        reason = outcome["judgement"]["reason"]
        assert outcome["judgement"]["verdict"] == "error", reason
        assert says in reason.partition("\n")[0], f"{reason}\n{output}"
        assert list(processes(self.cluster.path)) == []


@pytest.fixture
def pair(cluster: Cluster) -> Iterator[Pair]:
    made = Pair(cluster)
    yield made
    if made.session.poll() is None:
        made.session.kill()


def test_the_channel_of_a_frozen_node_is_killed(pair: Pair):
    run = pair.frozen["1"].run
    [channel] = [p for p in processes(pair.cluster.path) if p.run == run and p.name == "ssh"]
    os.kill(channel.pid, signal.SIGKILL)
    pair.ends("node2 was lost")


def test_the_far_side_of_a_frozen_node_is_killed(pair: Pair):
    pid = pair.frozen["1"].pid
    while Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() != "dlperf-parent":
        pid = parent(pid)
    os.kill(pid, signal.SIGKILL)
    pair.ends("node2 was lost")


def test_a_frozen_rank_is_killed(pair: Pair):
    os.kill(pair.frozen["1"].pid, signal.SIGKILL)
    pair.ends("rank 1 stopped at iteration")


def test_pytest_is_killed(pair: Pair):
    [child] = (
        Path(f"/proc/{pair.session.pid}/task/{pair.session.pid}/children").read_text().split()
    )
    os.kill(int(child), signal.SIGKILL)
    pair.session.wait(timeout=WAIT_S)
    end_s = time.monotonic() + WAIT_S
    while list(processes(pair.cluster.path)):
        assert time.monotonic() < end_s, list(processes(pair.cluster.path))
        time.sleep(0.2)
