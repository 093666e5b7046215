"""Pairs in lock-step on two nodes: the turns of all ranks, and what stands still in between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.cluster import Cluster, check_trained

pytestmark = pytest.mark.torch
PAIR = ("--dlperf-against=DLPERF_SIDE=1", "--dlperf-pairs=lock-step", "--dlperf-explain=never")
#: A program of the user's own: two ranks, whose steps it marks.
PROGRAM = """
import os
import torch
import torch.distributed as dist
from pytest_dlperf import mark

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(8, 32), torch.randint(0, 4, (8,))
for _ in range(30):
    with mark.step() as step:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        step.loss(loss)
"""


def first_steps(folder: Path) -> dict[str, list[list[int]]]:
    """Return the first iteration of each turn, as each rank wrote it, by arm."""
    turns: dict[str, list[list[int]]] = {}
    for path in sorted(folder.glob(".dlperf/**/run1/rank*.jsonl")):
        records = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        [record] = [record for record in records if record["record"] == "turns"]
        arm = "before" if "before" in path.parts else "now"
        turns.setdefault(arm, []).append(record["first_steps"])
    return turns


def check_turns(folder: Path, outcome: dict[str, Any]) -> None:
    """Check that all ranks of both arms of a pair took the same turns."""
    check_trained(outcome)
    assert outcome["against"]["order"] == ["both"]
    turns = first_steps(folder)
    assert sorted(turns) == ["before", "now"]
    assert [len(ranks) for ranks in turns.values()] == [2, 2]
    # Twenty iterations, in turns of three
    assert {tuple(steps) for ranks in turns.values() for steps in ranks} == {
        tuple(range(10, 30, 3))
    }


def run_pair(cluster: Cluster) -> None:
    _, output, outcomes = cluster.run(*PAIR)
    assert outcomes, output
    check_turns(cluster.path, outcomes[0])


@pytest.mark.nightly  # the gate has a launcher on each node without turns
def test_a_launcher_on_each_node(cluster: Cluster):
    cluster.write()
    run_pair(cluster)


@pytest.mark.nightly  # where no files are shared, the gate has the same
def test_a_launcher_that_starts_the_ranks_of_the_other_node(cluster: Cluster):
    cluster.write(launcher="mpirun")
    run_pair(cluster)


def test_a_program_that_marks_its_steps(cluster: Cluster):
    (cluster.path / "train.py").write_text(PROGRAM, encoding="utf-8")
    cluster.write(command=["python", "train.py"], suite="mine", framework="torch")
    run_pair(cluster)


def test_nodes_that_share_no_files(cluster: Cluster):
    cluster.write(launcher="mpirun")
    cluster.workdir.mkdir()
    cluster.lab.make_private(2, cluster.workdir)
    try:
        run_pair(cluster)
        left = cluster.lab.check(2, "find", str(cluster.workdir), "-mindepth", "1")
    finally:
        cluster.lab.share_again(2, cluster.workdir)
    assert left == ""
