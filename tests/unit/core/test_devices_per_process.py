"""One process that drives several devices: a rank is then a process, and the world its devices."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_dlperf.cases.marker import expand
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import UsageError


def case(layout: str, devices: Any = 1, **keys: Any) -> Case:
    values = {"suite": "net", "framework": "jax", "batch_size_per_device": 4, **keys}
    work = {} if "command" in keys else {"workload": "m:build"}
    [found] = expand(layout=layout, devices_per_process=devices, **work, **values)
    return found


@pytest.mark.parametrize(
    ("layout", "devices", "ranks", "ranks_per_node"),
    [
        ("1n8g", 1, 8, 8),
        ("1n8g", 8, 1, 1),
        ("2n8g", 4, 4, 2),
        # The one-device parent of a process of eight is a process of one
        ("1n1g", 8, 1, 1),
    ],
)
def test_ranks_are_processes(layout: str, devices: int, ranks: int, ranks_per_node: int):
    found = case(layout, devices)
    assert (found.ranks, found.ranks_per_node) == (ranks, ranks_per_node)
    # Whoever starts them, the devices train as many batches
    assert found.world_size == found.layout.world_size == found.replicas
    assert found.global_batch_size == found.iteration_work == 4 * found.world_size


def test_it_is_a_word_of_the_id_and_of_the_parents():
    found = case("1n8g", 8, parallel="ddp", options={"seq": [64]})
    assert found.id == "net-jax-fp32-bs4-ddp-per_process8-seq64-1n8g"
    parent = found.parent()
    assert parent is not None
    assert parent.id == "net-jax-fp32-bs4-ddp-per_process8-seq64-1n1g"
    assert case("1n8g").id == "net-jax-fp32-bs4-1n8g"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"devices": 0}, "whole number, 1 or more"),
        ({"devices": "2"}, "whole number, 1 or more"),
        ({"devices": 2, "framework": "torch"}, "is for JAX, and for programs; a process of torch"),
        ({"devices": 2, "parallel": "pp2"}, "stages of a pipeline are compared by process"),
        ({"devices": 3}, "1n8g has 8 devices a node, no multiple of 3"),
    ],
)
def test_what_cannot_be_meant_is_refused(keys: dict[str, Any], message: str):
    with pytest.raises(UsageError, match=message):
        case("1n8g", **keys)


def test_a_program_of_any_framework_may_drive_several():
    words = ["python", "train.py", "--devices={devices_per_process}"]
    found = case("1n8g", 4, framework="torch", command=words)
    assert found.command_line()[-1] == "--devices=4"
    assert found.ranks == 2
