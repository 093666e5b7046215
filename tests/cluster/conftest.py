from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_dlperf.launch.process.lease import lease_holder
from tests.helpers.cluster import Cluster
from tests.helpers.lab import Lab, a_lab

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Two nodes, with ssh between them."""
    with a_lab(one_core=True) as made:
        yield made


@pytest.fixture
def cluster(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A user's folder on node 1; at the end nothing of its runs is left on either node."""
    path = [REPOSITORY, REPOSITORY / "tests" / "torch", os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, path)))
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(tmp_path / "runtime"))
    made = Cluster(lab, tmp_path)
    yield made
    for number in (1, 2):
        if number in lab.alive:
            assert lab.processes(number, f"DLPERF_RUN={tmp_path}") == []
    assert lease_holder() is None
