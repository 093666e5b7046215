"""PyTorch on two nodes, for real: by torchrun and by mpirun, with and without shared files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.helpers.cluster import Cluster, check_trained
from tests.helpers.lab import a_lab

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    "rendezvous",
    # The other needs no other code of ours.
    ["static", pytest.param("c10d", marks=pytest.mark.nightly)],
)
def test_torchrun(cluster: Cluster, rendezvous: str):
    cluster.write()
    code, output, outcomes = cluster.run(f"--dlperf-rendezvous={rendezvous}")
    assert outcomes, output
    check_trained(outcomes[0])
    assert code == 0, output


@pytest.mark.nightly  # the gate has mpirun over nodes in test_faults_in_turns.py
def test_mpirun(cluster: Cluster):
    cluster.write(launcher="mpirun")
    code, output, outcomes = cluster.run()
    assert outcomes, output
    check_trained(outcomes[0])
    assert code == 0, output


@pytest.mark.nightly  # the gate has its main way
@pytest.mark.parametrize("launcher", ["torchrun", "mpirun"])
def test_records_come_back_where_files_are_not_shared(cluster: Cluster, launcher: str):
    # Of a repository the modules are listed in that folder
    subprocess.run(["git", "init", "-q"], cwd=cluster.path, check=True)
    cluster.write(launcher=launcher)
    cluster.workdir.mkdir()
    cluster.lab.make_private(2, cluster.workdir)
    try:
        code, output, outcomes = cluster.run()
        left = cluster.lab.check(2, "find", str(cluster.workdir), "-mindepth", "1")
    finally:
        cluster.lab.share_again(2, cluster.workdir)
    assert outcomes, output
    check_trained(outcomes[0])
    assert code == 0, output
    assert left == ""


@pytest.mark.nightly  # two sessions of two layouts; the gate has the same on one node
def test_scaling_is_over_one_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """``1n2c`` is measured for ``2n2c``; the ratio of both is stored, and found again."""
    root = Path(__file__).parents[2]
    path = [root, root / "tests" / "torch", os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, path)))
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(tmp_path / "runtime"))
    with a_lab() as lab:
        cluster = Cluster(lab, tmp_path)
        cluster.write(layout=["1n2c", "2n2c"], speedup="1n2c")
        nodes = {"hosts": "node1:2,node2:2"}
        again = ("-p", "tests.helpers.no_repeats", "-k", "2n2c")
        first, output, _ = cluster.run(
            "--update-baselines", "--dlperf-reason=first", *again, **nodes
        )
        assert first == 0, output
        _, output, [outcome] = cluster.run(*again, **nodes)
    check_trained(outcome)
    measured = outcome["measurement"]
    assert len(measured["runs"][0]["ranks"]) == 4
    assert measured["parent_throughputs"], output
    assert measured["speedup"] is not None
    [stored] = outcome["baseline_sessions"]
    assert stored["speedup"] is not None
    assert len(stored["parent_runs"]) == 1


MARKED = """
import os
import sys
import torch
import torch.distributed as dist
from pytest_dlperf.mark import step

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 32)
for _ in range(int(sys.argv[1])):
    with step(work=8) as s:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        if "EXTRA" not in os.environ:
            torch.linalg.vector_norm(x)
        loss.backward()
        optimizer.step()
        s.loss(loss)
del model
dist.destroy_process_group()
"""


@pytest.mark.nightly  # the gate explains programs on one node
def test_a_program_on_two_nodes_is_explained(cluster: Cluster):
    command = ["python", "train.py", "{iterations}"]
    cluster.write(command=command, framework="torch", iterations=12, warmup=4)
    (cluster.path / "train.py").write_text(MARKED, encoding="utf-8")
    _, output, outcomes = cluster.run("--dlperf-against=EXTRA=no", "--dlperf-explain=always")
    [outcome] = outcomes
    explanation = outcome["explanation"]
    assert explanation is not None, output
    assert explanation["note"] == ""
    rows = {row["operator"]: row for row in explanation["operators"] if row["path"] == ""}
    norm = rows["aten::linalg_vector_norm"]
    assert (norm["before_calls"], norm["after_calls"]) == (0, 1)
    assert [row["rank"] for row in explanation["ranks"]] == [0, 1]
    assert all(Path(trace).exists() for trace in explanation["traces"])
