"""Faults of a pair on two nodes, each injected while both nodes of one arm stand still."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.test_turns import PAIR
from tests.helpers.cluster import Cluster
from tests.helpers.frozen import await_frozen, parent_of, processes

pytestmark = pytest.mark.torch
WAIT_S = 120.0


def command_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


class Pair:
    """A pair whose turns last a second, from when all ranks of one of its arms stand still."""

    def __init__(self, cluster: Cluster, launcher: str) -> None:
        self.cluster = cluster
        cluster.write(iterations=42, warmup=2, options={"pace_s": 0.2}, launcher=launcher)
        self.session = cluster.start(*PAIR)
        self.frozen = await_frozen(cluster.path, 2, check=self._check)

    def _check(self) -> None:
        assert self.session.poll() is None, self.session.communicate()[0]

    def ends(self, says: str) -> None:
        """Check that the pair is an error that says so, and that nothing of it stays."""
        output = self.session.communicate(timeout=WAIT_S)[0]
        [outcome] = self.cluster.outcomes()
        reason = outcome["judgement"]["reason"]
        assert outcome["judgement"]["verdict"] == "error", reason
        assert says in reason.partition("\n")[0], f"{reason}\n{output}"
        self.leaves_nothing()

    def leaves_nothing(self) -> None:
        """Wait until nothing of it is left: a node that is cut off ends its part by itself."""
        end_s = time.monotonic() + WAIT_S
        while left := list(processes(self.cluster.path)):
            assert time.monotonic() < end_s, left
            time.sleep(0.2)


@pytest.fixture
def pair(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Pair]:
    made = Pair(cluster, getattr(request, "param", "torchrun"))
    yield made
    if made.session.poll() is None:
        made.session.kill()
    made.session.communicate()


# mpirun starts the ranks of the second node; the channel that freezes them is another one
@pytest.mark.parametrize(
    "pair", [pytest.param("torchrun", marks=pytest.mark.nightly), "mpirun"], indirect=True
)
def test_the_channel_of_a_frozen_node_is_killed(pair: Pair):
    run = pair.frozen["1"].run
    channels = [p for p in processes(pair.cluster.path) if p.run == run and p.name == "ssh"]
    # Nobody would be heard at their other ends
    assert not any(channel.stands for channel in channels)
    [channel] = [p.pid for p in channels if b"conductor" in command_of(parent_of(p.pid))]
    os.kill(channel, signal.SIGKILL)
    pair.ends("node2 was lost")


@pytest.mark.nightly  # what is left, and what is said, as after its channel
def test_the_far_side_of_a_frozen_node_is_killed(pair: Pair):
    pid = pair.frozen["1"].pid
    while Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() != "dlperf-parent":
        pid = parent_of(pid)
    os.kill(pid, signal.SIGKILL)
    pair.ends("node2 was lost")


@pytest.mark.nightly  # the gate has it on one node
def test_a_frozen_rank_is_killed(pair: Pair):
    os.kill(pair.frozen["1"].pid, signal.SIGKILL)
    pair.ends("rank 1 stopped at iteration")


def test_pytest_is_killed(pair: Pair):
    [child] = (
        Path(f"/proc/{pair.session.pid}/task/{pair.session.pid}/children").read_text().split()
    )
    os.kill(int(child), signal.SIGKILL)
    pair.session.wait(timeout=WAIT_S)
    pair.leaves_nothing()
