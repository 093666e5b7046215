"""Ranks that hold parts of a model, on gloo: FSDP2, a pipeline; tensors that are split by hand.

One rank has a rendezvous too, and a DTensor's checksum is of its local shard.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.one_session import OneSession, run_together
from tests.helpers.user_folder import HERE

pytestmark = pytest.mark.torch

#: Weights and biases of the whole models, by hand.
OF_FSDP2 = OF_PIPELINE = (32 * 64 + 64) + (64 * 4 + 4)


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> OneSession:
    """One rank and two, whose shards are declared; and one more of one rank, to compare.

    And the two stages of a pipeline.
    """
    common = {"workload": "sharded:build", "options": {"declare": "shards"}, "speedup": None}
    return run_together(
        tmp_path_factory.mktemp("sharded"),
        {
            "one": {**common, "layout": "1n1c"},
            "again": {**common, "layout": "1n1c"},
            "two": {**common, "layout": "1n2c", "parameters": OF_FSDP2},
            "stages": {
                "workload": "sharded:pipeline",
                "layout": "1n2c",
                "parallel": "pp2",
                "speedup": None,
                "parameters": OF_PIPELINE,
            },
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


def records_of(session: OneSession, name: str) -> list[dict[str, Any]]:
    """Return the records of both ranks by their kinds; of spans, the last."""
    ended = session[name]
    [run] = ended.measurement["runs"]
    files = sorted(Path(run["folder"]).glob("rank*.jsonl"))
    lines = [file.read_text(encoding="utf-8").splitlines() for file in files]
    return [{one["record"]: one for one in map(json.loads, of_rank)} for of_rank in lines]


def test_the_shards_of_fsdp2_add_up(sharded: OneSession):
    first, second = (one["model"]["held"] for one in records_of(sharded, "two"))
    assert not set(first) & set(second), "each rank has shards of its own"
    assert sum(first.values()) + sum(second.values()) == OF_FSDP2
    assert sharded["two"].measurement["conditions"]["parameter_count"] == OF_FSDP2


def test_stages_of_a_pipeline_train_on_one_batch(sharded: OneSession):
    """Their parameters differ, their losses are one, and their work counts once."""
    first, second = records_of(sharded, "stages")
    assert first["checksum"]["value"]["digest"] != second["checksum"]["value"]["digest"]
    assert (first["model"]["held"], second["model"]["held"]) == ({"": 2112}, {"": 260})
    losses = first["loss"]["values"]
    assert losses == second["loss"]["values"]
    assert losses[-1] < losses[0]
    measured = sharded["stages"].measurement
    assert first["model"]["input_shapes"] == [[4, 32]], "a microbatch of two"
    assert [one["span"]["work"] for one in (first, second)] == [4, 4]
    window_s = sum(measured["runs"][0]["step_seconds"][10:])
    assert measured["throughput"] == pytest.approx(20 * 8 / window_s, rel=1e-6)
    assert measured["conditions"]["parameter_count"] == OF_PIPELINE


def test_tensors_that_are_split_by_hand_count_once_a_part():
    torch = pytest.importorskip("torch")
    from pytest_dlperf.worker.frameworks.torch.watch import checksum, held

    whole, own = torch.nn.Linear(4, 2), torch.nn.Linear(2, 3)
    module = torch.nn.ModuleList([whole, own])
    experts = [torch.zeros(5), *own.parameters()]
    shards = [(1, parameter) for parameter in experts]
    assert held([module], shards) == {"": 10, "part 1": 14}
    assert held([module], ()) == {"": 19}

    found = checksum(list(module.parameters()), shards)
    assert (found["tensors"], found["shards"]["tensors"]) == (2, 3)
    other = checksum(list(module.parameters()), [(0, parameter) for parameter in experts])
    assert other["digest"] == found["digest"]
    assert other["shards"]["digest"] == found["shards"]["digest"]
    assert other["shards"]["place"] != found["shards"]["place"]


def test_collectives_on_a_gpu_have_a_backend_for_tensors_of_the_host():
    """Simulated: no GPU is asked."""
    torch = pytest.importorskip("torch")
    from pytest_dlperf.worker.frameworks.torch.framework import group_options

    device = torch.device("cuda", 1)
    assert group_options(device) == {"backend": "cpu:gloo,cuda:nccl", "device_id": device}
    assert group_options(torch.device("cpu")) == {"backend": "gloo"}
