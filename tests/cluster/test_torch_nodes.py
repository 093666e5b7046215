"""PyTorch on two nodes, for real: by torchrun and by mpirun, with and without shared files."""

from __future__ import annotations

import pytest

from tests.helpers.cluster import Cluster, check_trained

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


def test_mpirun(cluster: Cluster):
    cluster.write(launcher="mpirun")
    code, output, outcomes = cluster.run()
    assert outcomes, output
    check_trained(outcomes[0])
    assert code == 0, output


@pytest.mark.parametrize(
    "launcher",
    # Records come back the same way under any launcher.
    ["torchrun", pytest.param("mpirun", marks=pytest.mark.nightly)],
)
def test_records_come_back_where_files_are_not_shared(cluster: Cluster, launcher: str):
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
