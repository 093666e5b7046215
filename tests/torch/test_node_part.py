"""Both node parts of one real training, started by hand at once; both on this machine."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from typing import Any

import pytest

from tests.helpers.user_folder import Folder

pytestmark = pytest.mark.torch


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


class Node:
    """One node's pytest, in the background."""

    def __init__(self, folder: Folder, rank: int, port: int, *arguments: str) -> None:
        self._results = folder.path / f"node{rank}.json"
        self._process = subprocess.Popen(
            [
                sys.executable, "-m", "pytest", "-p", "no:cacheprovider",
                f"--dlperf-node-rank={rank}", f"--dlperf-master=127.0.0.1:{port}",
                f"--dlperf-json={self._results}",
                # Both "nodes" are this host, which else runs one case at a time.
                "--dlperf-share-host", "-p", "tests.helpers.no_repeats", *arguments,
            ],
            cwd=folder.path,
            stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def end(self) -> tuple[int, str, list[dict[str, Any]]]:
        """Return exit code, output and outcomes."""
        output, _ = self._process.communicate(timeout=900)
        outcomes = json.loads(self._results.read_text(encoding="utf-8"))["outcomes"]
        return self._process.returncode, output, outcomes


def test_node_0_judges_what_both_nodes_measured(folder: Folder):
    # Node 1 waits in its launch while node 0 measures the parent.
    folder.write(layout=["1n1c", "2n1c"], max_runs=1, timeout_s=600.0)
    port = free_port()
    nodes = [Node(folder, rank, port, "--dlperf-strict") for rank in (0, 1)]
    ends = [node.end() for node in nodes]

    code, output, outcomes = ends[1]
    assert code == 0, output
    [helper] = outcomes
    assert helper["share_done"] is True
    assert helper["judgement"]["verdict"] == "not-run"
    assert "the part of node 1 is done (1 run of 2n1c)" in helper["judgement"]["reason"]
    assert helper["measurement"] is None
    assert "1n1c needs only node 0; this is node 1" in output

    _, output, outcomes = ends[0]
    by_id = {outcome["case"]["id"]: outcome for outcome in outcomes}
    assert set(by_id) == {"net-torch-fp32-bs8-1n1c", "net-torch-fp32-bs8-2n1c"}, output
    judged = by_id["net-torch-fp32-bs8-2n1c"]
    measurement = judged["measurement"]
    assert measurement is not None, judged["judgement"]
    assert measurement["conditions"]["world_size"] == 2
    assert measurement["speedup"] > 0
    for run in measurement["runs"]:
        assert [rank["rank"] for rank in run["ranks"]] == [0, 1]
    assert folder.ours() == []


@pytest.mark.nightly
def test_a_node_that_stops_says_so_to_the_others(folder: Folder):
    # What is wrong is found by node 0 alone, while node 1 goes on to the second run.
    folder.write(layout="2n1c", runs=2, options={"fault": "not-averaged"}, speedup=None)
    port = free_port()
    nodes = [Node(folder, rank, port) for rank in (0, 1)]
    (code_0, _, [judged]), (code_1, _, [helper]) = [node.end() for node in nodes]
    assert (code_0, code_1) == (1, 1)
    assert "gradients are not averaged" in judged["judgement"]["reason"]
    assert helper["judgement"]["verdict"] == "error"
    assert "node 0 stopped" in helper["judgement"]["reason"]
    assert "gradients are not averaged" in helper["judgement"]["reason"]
    assert folder.ours() == []
