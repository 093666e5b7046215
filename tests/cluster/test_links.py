"""Links that become slower: speedup falls, its gate fails, and the sentence says why."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.helpers.cluster import Cluster

# Minutes of sessions on a link that is slow; tests/plugin judges speedups of a fake launcher.
pytestmark = [pytest.mark.torch, pytest.mark.nightly]
#: A busy machine gives sessions that do not count; they are repeated.
TRIES = 4


def stored(cluster: Cluster, count: int) -> None:
    """Store so many sessions of what is as it should be."""
    for _ in range(TRIES * count):
        if count == 0:
            return
        _, output, [outcome] = cluster.run("--update-baselines")
        assert outcome["judgement"]["verdict"] != "error", output
        count -= bool(outcome["update"])
    assert count == 0, "no session was undisturbed"


def test_capped_links_fail_the_gate_of_speedup(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    path = os.pathsep.join([str(Path(__file__).parent), os.environ["PYTHONPATH"]])
    monkeypatch.setenv("PYTHONPATH", path)
    cluster.write("wide:build", batch_size_per_device=64, iterations=24, warmup=8, runs=2,
                  max_runs=4, tolerance=0.3, speedup="one-device")  # fmt: skip
    stored(cluster, 1)
    cluster.lab.cap("500mbit")
    try:
        for _ in range(TRIES):
            code, output, [outcome] = cluster.run("--dlperf-strict")
            judgement = outcome["judgement"]
            assert code == 1, output
            if judgement["verdict"] == "regressed":
                break
    finally:
        cluster.lab.uncap()
    assert judgement["verdict"] == "regressed", output
    assert judgement["metrics"]["speedup"]["change"] < -0.3
    assert re.search(r"all-reduce \d+ % of the step", judgement["reason"]), judgement["reason"]
