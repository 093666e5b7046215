"""How ranks copy, shard and split a model, as the marker says it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_dlperf.cases.marker import cases_of, expand
from pytest_dlperf.cases.selection import CaseRequest, Machine, select
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.id_words import CaseId
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.wire_parallel import Parallel
from pytest_dlperf.session.collection import declared_by

KEYS = {"suite": "gpt", "workload": "m:f", "batch_size_per_device": 4}


def test_degrees_and_the_mesh():
    parsed = Parallel.parse("fsdp2-tp4-pp2")
    assert parsed == Parallel(data="fsdp2", tp=4, pp=2)
    assert parsed.split == 8
    assert parsed.dims(32) == (("dp", 4), ("pp", 2), ("tp", 4))
    assert Parallel.parse("ddp").dims(8) == (("dp", 8),)
    assert Parallel.parse("") == Parallel()


def test_ranks_of_a_replica_follow_one_another_and_the_last_word_is_fastest():
    parsed = Parallel.parse("zero1-pp2-cp2-tp2")
    assert [parsed.replica(rank) for rank in range(16)] == [0] * 8 + [1] * 8
    assert [parsed.stage(rank) for rank in range(16)] == ([0] * 4 + [1] * 4) * 2


@pytest.mark.parametrize(
    "text",
    ["tp", "tp1", "tp0", "tp2-tp4", "tp2-ddp", "ep2", "fsdp3", "tp2-", "tp2fsdp2", " ddp", "tp1٢"],
)
def test_what_cannot_be_meant_is_a_usage_error(text: str):
    with pytest.raises(UsageError, match="is not known there; give one of ddp, fsdp"):
        expand(**KEYS, layout="1n8g", parallel=text)


def test_it_is_an_axis_and_a_word_of_the_id():
    cases = expand(
        **KEYS, layout="1n8g", parallel=[None, "ddp", "fsdp2-tp2"], options={"compile": [True]}
    )
    assert [case.id for case in cases] == [
        "gpt-torch-fp32-bs4-compile-1n8g",
        "gpt-torch-fp32-bs4-ddp-compile-1n8g",
        "gpt-torch-fp32-bs4-fsdp2-tp2-compile-1n8g",
    ]
    for case in cases:
        assert CaseId.parse(case.id) == CaseId.of(case)


def test_a_replicas_batch_counts_once():
    ddp, split = expand(**KEYS, layout="1n8g", parallel=["ddp", "tp4"])
    assert (ddp.iteration_work, split.iteration_work) == (32, 8)
    assert (ddp.global_batch_size, split.global_batch_size) == (32, 8)


@pytest.mark.parametrize("text", ["fsdp2-pp2-tp4", "fsdp2-tp4-pp2"])
def test_one_mesh_has_one_id(text: str):
    [case] = expand(**KEYS, layout="1n8g", parallel=text)
    assert case.id == "gpt-torch-fp32-bs4-fsdp2-tp4-pp2-1n8g"
    assert str(case.parallelism) == case.parallel
    keys = {"layout": "1n8g", "batch_size_per_device": 4, "parallel": [text, "fsdp2-tp4-pp2"]}
    with pytest.raises(UsageError, match=r"case id gpt-.* is declared twice"):
        declared_by([(("m:f",), keys)], function="test_gpt")


def test_a_case_that_is_made_by_hand_has_the_same_text():
    [case] = expand(**KEYS, layout="1n4g", parallel="tp2-pp2")
    with pytest.raises(UsageError, match="'pp2-tp2' is 'tp2-pp2', and one mesh has one id"):
        replace(case, parallel="pp2-tp2")


def test_a_sweep_leaves_out_layouts_without_whole_replicas():
    cases = expand(**KEYS, size="tiny", layout=["1n1c", "1n2c", "1n4c"], parallel=["ddp", "tp4"])
    machine = Machine(gpus=0, gpu_problem="", cores=4)
    found = {s.case.id: s.left_out for s in select(cases, CaseRequest(), machine)}
    left_out = {case_id: why for case_id, why in found.items() if why}
    assert len(found) == 6
    assert left_out == {
        "gpt.tiny-torch-fp32-bs4-tp4-1n1c": "tp4 needs a multiple of 4 devices, and 1n1c has 1",
        "gpt.tiny-torch-fp32-bs4-tp4-1n2c": "tp4 needs a multiple of 4 devices, and 1n2c has 2",
    }


def test_a_degree_that_fits_no_layout_is_an_error():
    with pytest.raises(UsageError, match="tp4 needs a multiple of 4 devices, and 1n1g has 1"):
        expand(**KEYS, layout=["1n1g", "1n2g"], parallel=["ddp", "tp4"])


def test_layouts_hold_whole_replicas():
    eight = expand(**KEYS, layout=["1n4g", "1n8g"], parallel="tp4")[1]
    assert eight.parent() is None, "one device holds no replica"
    [_, scaled] = expand(**KEYS, layout=["1n4g", "1n8g"], parallel="tp4", speedup="1n4g")
    parent = scaled.parent()
    assert parent is not None
    assert str(parent.layout) == "1n4g"


def test_cases_that_were_changed_by_hand_hold_whole_replicas():
    [case] = expand(**KEYS, layout="1n4g", parallel="tp4")
    cut = replace(case, layout=Layout.parse("1n2g"))
    with pytest.raises(UsageError, match="tp4 needs a multiple of 4 devices, and 1n2g has 2"):
        cases_of((), {"cases": [cut]}, function="test_gpt")


def test_devices_that_make_no_whole_replica_leave_the_case_out():
    cases = expand(**KEYS, size="tiny", layout="1n2c", parallel=["ddp", "tp2"])
    machine = Machine(gpus=0, gpu_problem="", cores=4)
    found = {s.case.id: s.left_out for s in select(cases, CaseRequest(cpus=(1, 2)), machine)}
    assert found == {
        "gpt.tiny-torch-fp32-bs4-ddp-1n1c": "",
        "gpt.tiny-torch-fp32-bs4-ddp-1n2c": "",
        "gpt.tiny-torch-fp32-bs4-tp2-1n1c": "tp2 needs a multiple of 2 devices, and 1n1c has 1",
        "gpt.tiny-torch-fp32-bs4-tp2-1n2c": "",
    }


@pytest.mark.parametrize("value", [2, True, b"tp2", {"tp": 2}, 2.0])
def test_what_is_no_text_is_a_usage_error(value: object):
    with pytest.raises(UsageError, match="give a text, as in 'fsdp2-tp2'"):
        expand(**KEYS, layout="1n8g", parallel=value)


def test_a_command_is_given_how_it_is_parallel():
    keys = {"suite": "gpt", "batch_size_per_device": 4, "layout": "1n8g"}
    words = ["python", "x.py", "--parallel={parallel}"]
    cases = expand(**keys, command=words, parallel=["ddp", "tp2"])
    assert [case.command_line()[-1] for case in cases] == ["--parallel=ddp", "--parallel=tp2"]
    with pytest.raises(UsageError, match="parallel is a list, and no word of the command has"):
        expand(**keys, command=["python", "x.py"], parallel=["ddp", "tp2"])
    # An option of that name was there before
    [case] = expand(**keys, command=words, options={"parallel": "both"})
    assert case.command_line()[-1] == "--parallel=both"
    with pytest.raises(UsageError, match="parallel='tp2' and an option parallel; give it one"):
        expand(**keys, command=words, parallel="tp2", options={"parallel": ["a", "b"]})
