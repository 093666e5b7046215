"""Where ranks of two nodes start: behind a prefix, and where pytest has no framework."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.bare_python import make_bare_python
from tests.helpers.cluster import Cluster, check_trained

pytestmark = pytest.mark.torch


# The plan of a launch with a prefix is in tests/unit/launch; CI runs one on one node.
@pytest.mark.nightly
@pytest.mark.parametrize("launcher", ["torchrun", "mpirun"])
def test_behind_a_prefix_on_each_node(cluster: Cluster, launcher: str):
    """The prefix has an environment of its own, as a container's has."""
    cluster.write(launcher=launcher)
    home = os.environ["HOME"]
    code, output, outcomes = cluster.run(
        f"--dlperf-prefix=env -i PATH={os.environ['PATH']} HOME={home} nice -n 1",
        f"--dlperf-python={sys.executable}",
    )
    assert outcomes, output
    check_trained(outcomes[0])
    assert code == 0, output
    assert "nice -n 1" in outcomes[0]["environment"]["software"]["prefix"]


# CI has it on one node: tests/torch/test_framework_in_the_target_alone.py.
@pytest.mark.nightly
def test_pytest_has_no_framework_and_the_nodes_have(cluster: Cluster, tmp_path: Path):
    bare = make_bare_python(tmp_path / "bare")
    cluster.write()
    command = cluster.command(f"--dlperf-python={sys.executable}", "-p", "pytest_dlperf.plugin")
    done = subprocess.run(
        cluster.lab.on(1, str(bare), *command[1:], folder=cluster.path),
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    found = subprocess.run([bare, "-c", "import torch"], capture_output=True, check=False)
    assert found.returncode != 0
    assert cluster.outcomes(), done.stdout + done.stderr
    check_trained(cluster.outcomes()[0])
    assert done.returncode == 0, done.stdout


def test_doctor_looks_at_every_host_of_a_hostfile(cluster: Cluster):
    (cluster.path / "hosts").write_text("node1 slots=1\nnode2:1\nnowhere:1\n", encoding="utf-8")
    done = subprocess.run(
        cluster.lab.on(
            1, sys.executable, "-m", "pytest_dlperf.cli", "doctor", "--hosts=hosts",
            f"--ssh=ssh -F {cluster.lab.ssh_config}", folder=cluster.path,
        ),
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "node1: Python" in done.stdout
    assert "node2: Python" in done.stdout
    assert "nowhere cannot be reached" in done.stdout
