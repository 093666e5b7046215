"""Links that become slower: speedup falls and its gate says why; a pair keeps its turns."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.cluster.test_turns import run_pair
from tests.helpers.cluster import Cluster
from tests.helpers.lab import a_lab

# Minutes of sessions on a link that is slow; tests/plugin judges speedups of a fake launcher.
pytestmark = [pytest.mark.torch, pytest.mark.nightly]
#: A busy machine gives sessions that do not count; they are repeated.
TRIES = 4
REPOSITORY = Path(__file__).parents[2]


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


@pytest.mark.skipif(not Path("/dev/net/tun").exists(), reason="no /dev/net/tun: no TAP devices")
def test_a_pair_takes_turns_over_links_with_a_delay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = [REPOSITORY, REPOSITORY / "tests" / "torch", os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, path)))
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(tmp_path / "runtime"))
    with a_lab(one_core=True) as lab:
        lab.delay(0.005)
        cluster = Cluster(lab, tmp_path)
        cluster.write()
        cluster.workdir.mkdir()
        # Files that are shared would carry what channels do, without the delay
        lab.make_private(2, cluster.workdir)
        run_pair(cluster)
