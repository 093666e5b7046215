"""FSDP2 on gloo: one rank has a rendezvous, and a DTensor's checksum is of its local shard."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.one_session import OneSession, run_together
from tests.helpers.user_folder import HERE

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> OneSession:
    """One rank and two, whose shards are declared; and one more of one rank, to compare."""
    common = {"workload": "sharded:build", "options": {"declare": "shards"}, "speedup": None}
    return run_together(
        tmp_path_factory.mktemp("sharded"),
        {
            "one": {**common, "layout": "1n1c"},
            "again": {**common, "layout": "1n1c"},
            "two": {**common, "layout": "1n2c"},
        },
        workloads=HERE,
    )


def written(session: OneSession, name: str, rank: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the workload says of its parameters, and the checksum of a rank."""
    ended = session[name]
    assert ended.verdict != "error", ended.reason
    case = ended.outcome["case"]["id"]
    [said] = session.folder.path.glob(f".dlperf/*/{case}/run1/sharded{rank}.json")
    lines = (said.parent / f"rank{rank:05d}.jsonl").read_text(encoding="utf-8").splitlines()
    [record] = [one for one in map(json.loads, lines) if one["record"] == "checksum"]
    return json.loads(said.read_text(encoding="utf-8")), record["value"]


def test_one_rank_has_a_process_group(sharded: OneSession):
    said, _ = written(sharded, "one", 0)
    assert said["ranks"] == 1
    assert said["kinds"] == ["DTensor"]


def test_the_checksum_of_shards_is_of_their_numbers(sharded: OneSession):
    """Two trainings alike have the same; a null pointer's bytes would be of random memory."""
    said, first = written(sharded, "one", 0)
    assert said["pointers"] == [0] * 4
    assert first["tensors"] == 0
    assert first["shards"]["tensors"] == 4
    assert written(sharded, "again", 0)[1] == first


def test_two_ranks_hold_two_places(sharded: OneSession):
    checksums = [written(sharded, "two", rank)[1] for rank in (0, 1)]
    places = {found["shards"]["place"] for found in checksums}
    digests = {found["shards"]["digest"] for found in checksums}
    assert (len(places), len(digests)) == (2, 2)


def test_collectives_on_a_gpu_have_a_backend_for_tensors_of_the_host():
    """Simulated: no GPU is asked."""
    torch = pytest.importorskip("torch")
    from pytest_dlperf.worker.frameworks.torch.framework import group_options

    device = torch.device("cuda", 1)
    assert group_options(device) == {"backend": "cpu:gloo,cuda:nccl", "device_id": device}
    assert group_options(torch.device("cpu")) == {"backend": "gloo"}
