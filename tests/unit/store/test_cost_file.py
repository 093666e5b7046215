"""Stored costs: what is in a file, and what a diff of two shows."""

from __future__ import annotations

import difflib
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_dlperf.core.codec import DecodeError
from pytest_dlperf.core.errors import BaselineError
from pytest_dlperf.store.baseline import cost_file
from pytest_dlperf.store.baseline.cost_file import StoredCost
from pytest_dlperf.store.baseline.folded import folded, unfolded
from pytest_dlperf.store.baseline.store import BaselineStore
from tests.helpers.costs import cost_record, operator_in

CASE = "net-torch-bf16-bs4-1n8g"


def stored(record: Any, **values: Any) -> StoredCost:
    return StoredCost(record=record, case_version=1, **values)


def test_a_cost_is_read_as_it_was_written(tmp_path: Path):
    assert cost_file.read(tmp_path, "net", CASE) is None
    assert cost_file.write(tmp_path, "net", CASE, stored(cost_record(), reason="r")) == "created"
    found = cost_file.read(tmp_path, "net", CASE)
    assert found is not None
    assert found.reason == "r"
    assert cost_file.to_bytes(found) == (tmp_path / f"cost/net/{CASE}.cost.json").read_bytes()
    assert cost_file.write(tmp_path, "net", CASE, found) == ""
    assert cost_file.write(tmp_path, "net", CASE, stored(cost_record())) == "replaced"


def test_neither_machine_nor_order_of_calls_is_in_it():
    def shuffled(stage: dict[str, Any]) -> None:
        random.Random(3).shuffle(stage["operators"])
        stage["memory"]["at_peak"].reverse()

    elsewhere = cost_record(
        shuffled, elapsed_s=99.0, trace_peak_bytes=1, framework_version="2.13.0+cu128"
    )
    assert cost_file.to_bytes(stored(elsewhere)) == cost_file.to_bytes(stored(cost_record()))


def test_a_changed_operator_is_a_changed_line():
    def changed(stage: dict[str, Any]) -> None:
        operator_in(stage, "blocks.*.attention")["read_bytes"] += 1

    before, now = (
        cost_file.to_bytes(stored(record)).decode().splitlines()
        for record in (cost_record(), cost_record(changed))
    )
    lines = [line for line in difflib.ndiff(before, now) if line[0] in "+-"]
    assert len(lines) == 2
    assert all('"path": "blocks.*.attention"' in line for line in lines)


def layers_of(count: int) -> Any:
    def repeat(stage: dict[str, Any]) -> None:
        [gather] = stage["collectives"]
        scatter = {**gather, "kind": "reduce-scatter", "phase": "backward", "calls": 1}
        stage["collectives"] = [gather, *[{**gather, "calls": 1}, scatter] * count]

    return cost_record(repeat)


def test_collectives_of_more_layers_are_the_same_lines(tmp_path: Path):
    few, many = (
        cost_file.to_bytes(stored(layers_of(count))).decode().splitlines() for count in (8, 80)
    )
    assert len(few) == len(many)
    assert [line for line in many if line not in few] == ['     "times": 80']
    cost_file.write(tmp_path, "net", CASE, stored(layers_of(80)))
    found = cost_file.read(tmp_path, "net", CASE)
    assert found is not None
    [was], [now] = layers_of(80)["stages"], found.record["stages"]
    assert now["collectives"] == was["collectives"]


@given(rows=st.lists(st.integers(0, 2), max_size=60))
def test_what_was_folded_is_unfolded(rows: list[int]):
    assert unfolded(folded(rows)) == rows


@pytest.mark.parametrize("times", [0, -1, 1.5, True, 10**9])
def test_a_damaged_number_of_times_is_refused(times: Any):
    with pytest.raises(DecodeError, match="times"):
        unfolded([{"times": times, "of": [1]}])


def test_a_damaged_file_names_its_field(tmp_path: Path):
    cost_file.write(tmp_path, "net", CASE, stored(cost_record()))
    path = tmp_path / f"cost/net/{CASE}.cost.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    del values["stages"][0]["memory"]
    path.write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(BaselineError, match=r"memory: missing"):
        cost_file.read(tmp_path, "net", CASE)


def test_a_cost_is_no_baseline_of_a_machine(tmp_path: Path):
    cost_file.write(tmp_path, "net", CASE, stored(cost_record()))
    assert BaselineStore(tmp_path).readable() == ([], [])
