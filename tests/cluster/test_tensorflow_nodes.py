"""TensorFlow on two nodes, for real, by horovodrun."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cluster.test_turns import run_pair
from tests.helpers.cluster import Cluster, check_it_trains

pytestmark = pytest.mark.tensorflow


# The gate has PyTorch and Paddle on two nodes, and horovodrun on one.
@pytest.mark.nightly
def test_it_trains_on_two_nodes(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    check_it_trains(cluster, "tensorflow", monkeypatch)


@pytest.mark.nightly  # the gate has a pair of PyTorch on two nodes
def test_a_pair_takes_turns_on_two_nodes(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    workloads = Path(__file__).parents[1] / "tensorflow"
    monkeypatch.setenv("PYTHONPATH", f"{workloads}{os.pathsep}{os.environ['PYTHONPATH']}")
    cluster.write(framework="tensorflow")
    run_pair(cluster)
