"""Ranks that hold the same parameters hold the same numbers; stages of a pipeline do not."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.measure.checks import check_agreement, check_devices, parameter_count
from pytest_dlperf.measure.records import RankRecords
from pytest_dlperf.measure.summary import summarise
from tests.helpers.judge_builders import case
from tests.helpers.record_files import case as of_records
from tests.helpers.record_files import rank_records, write


def ranks(*held: tuple[str, int], samples: tuple[int, ...] = ()) -> list[RankRecords]:
    """Return the records of ranks, each with the digest and the number of its parameters."""
    found = []
    for rank, (digest, count) in enumerate(held):
        kinds: dict[str, Any] = {
            "checksum": {"value": {"digest": digest, "tensors": 2}},
            "model": {"parameter_count": count},
            "data": {"first_samples": list(samples)},
        }
        found.append(RankRecords(rank=rank, by_kind=kinds, spans=(), canaries=()))
    return found


A, B, OTHER = ("a", 10), ("b", 20), ("c", 10)


def test_stages_of_a_pipeline_are_not_compared_with_each_other():
    check_agreement(case("1n4c", parallel="ddp-pp2"), ranks(A, B, A, B))
    with pytest.raises(CaseError, match="the replicated parameters differ between ranks"):
        check_agreement(case("1n4c"), ranks(A, B, A, B))


@pytest.mark.parametrize(
    ("held", "says"),
    [
        ((A, B, OTHER, B), "the replicated parameters differ between ranks"),
        ((A, B, ("a", 11), B), r"different numbers of parameters: \[10, 11\]"),
    ],
)
def test_a_stage_is_compared_with_the_same_stage_of_other_replicas(held: Any, says: str):
    with pytest.raises(CaseError, match=says):
        check_agreement(case("1n4c", parallel="ddp-pp2"), ranks(*held))


def holding(*parts: dict[str, int]) -> list[RankRecords]:
    """Return the records of ranks that hold so many parameters of each shard."""
    found = ranks(*[("a", sum(one.values())) for one in parts])
    for rank, one in zip(found, parts, strict=True):
        rank.by_kind["model"]["held"] = one
    return found


TP = {"": 4, "x": 3}, {"": 4, "y": 3}


@pytest.mark.parametrize(
    ("parallel", "held", "whole"),
    [
        ("ddp", [{"": 4}] * 4, 4),
        ("ddp-pp2", [{"": 4}, {"": 5}] * 2, 9),
        ("tp2", [*TP, *TP], 10),
        ("tp2-pp2", [*TP, {"": 1, "x": 1}, {"": 1, "y": 2}], 14),
        ("fsdp2", [{"a": 3}, {"b": 3}, {"c": 3}, {"d": 1}], 10),
    ],
)
def test_each_shard_and_each_stage_counts_once(
    parallel: str, held: list[dict[str, int]], whole: int
):
    records = holding(*held)
    declared = case("1n4c", parallel=parallel, parameters=whole)
    assert parameter_count(declared, records) == whole
    check_agreement(declared, records)
    with pytest.raises(CaseError, match=f"add up to {whole}, each shard and each stage counted"):
        check_agreement(case("1n4c", parallel=parallel, parameters=whole + 1), records)


def test_ranks_of_one_place_hold_as_much():
    with pytest.raises(CaseError, match=r"different numbers of parameters: \[3, 4\]"):
        check_agreement(case("1n4c", parallel="tp2"), holding(*TP, TP[0], {"": 4, "y": 4}))


def test_a_framework_without_sharded_tensors_reports_the_number_alone():
    assert parameter_count(case("1n4c", parallel="ddp-pp2"), ranks(A, B, A, B)) == 30


def test_ranks_of_one_replica_read_the_same_samples():
    records = ranks(A, A, A, A)
    for rank, first in zip(records, ([1, 2], [2, 1], [3, 4], [5, 6]), strict=True):
        rank.by_kind["data"]["first_samples"] = first
    with pytest.raises(CaseError, match=r"ranks 2 and 3 share a batch \(tp2\), and begin with"):
        check_agreement(case("1n4c", parallel="tp2"), records)
    records[3].by_kind["data"]["first_samples"] = [4, 3]
    check_agreement(case("1n4c", parallel="tp2"), records)


def test_only_ranks_of_one_replica_may_read_the_same_samples():
    check_agreement(case("1n2c", parallel="tp2"), ranks(A, A, samples=(1, 2)))
    with pytest.raises(CaseError, match="ranks 0 and 1 both read sample 1"):
        check_agreement(case("1n2c", parallel="ddp"), ranks(A, A, samples=(1, 2)))


def on_devices(*places: tuple[str, str | None]) -> list[RankRecords]:
    """Return the records of ranks, each with its node and the device that it reported."""
    kinds: list[Any] = [
        {"start": {"node": node}, "framework": {"device_id": device}} for node, device in places
    ]
    return [
        RankRecords(rank=rank, by_kind=one, spans=(), canaries=())
        for rank, one in enumerate(kinds)
    ]


@pytest.mark.parametrize("command", [(), ("train",)])
def test_a_program_of_ones_own_may_share_a_gpu(tmp_path: Path, command: tuple[str, ...]):
    """Its marks know PyTorch's current device only, which need not be the one it trains on."""
    ranks = [rank_records(0), rank_records(1)]
    for records in ranks:
        [framework] = [one for one in records if one["record"] == "framework"]
        framework["device_id"] = "GPU-1"
    run = write(tmp_path, ranks)
    keys = {"command": list(command)} if command else {}
    with contextlib.nullcontext() if command else pytest.raises(CaseError, match="on one GPU"):
        summarise(of_records("1n2g", **keys), run)


def test_ranks_of_a_node_have_a_gpu_each():
    check_devices(case("2n1g"), on_devices(("a", "GPU-1"), ("b", "GPU-1")))
    check_devices(case("1n2g"), on_devices(("a", "GPU-1"), ("a", "GPU-2")))
    check_devices(case("1n2c"), on_devices(("a", None), ("a", None)))
    with pytest.raises(CaseError, match="ranks 0 and 1 trained on one GPU, GPU-1"):
        check_devices(case("1n2g"), on_devices(("a", "GPU-1"), ("a", "GPU-1")))
