"""TensorFlow on two nodes, for real, by horovodrun."""

from __future__ import annotations

import pytest

from tests.helpers.cluster import Cluster, check_it_trains

pytestmark = pytest.mark.tensorflow


# The gate has PyTorch and Paddle on two nodes, and horovodrun on one.
@pytest.mark.nightly
def test_it_trains_on_two_nodes(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    check_it_trains(cluster, "tensorflow", monkeypatch)
