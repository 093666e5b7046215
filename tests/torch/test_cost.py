"""What a step asks for, traced on fake tensors: formulas, published counts, theory, faults."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.fsdp._fully_shard import _fsdp_param_group

from perf_tests.llama.recipe import SIZES, parameter_count
from perf_tests.llama.torch_model import Llama
from pytest_dlperf.core.frameworks import FRAMEWORKS
from pytest_dlperf.core.wire_cost import COST_RECORD, StageCost
from pytest_dlperf.judge.cost import cost_comparison, cost_findings
from tests.helpers.gloo_ranks import reports_of
from tests.helpers.traced import (
    arguments_of,
    bytes_by_kind,
    calls_by_kind,
    differences,
    flags_of,
    stage_of,
    traced,
)

pytestmark = [
    pytest.mark.torch,
    # PyTorch's own, of these workloads
    pytest.mark.filterwarnings(
        "ignore:.*deprecated:FutureWarning",
        "ignore:.*deprecated:DeprecationWarning",
        "ignore:FSDP2-wrapped",
        "ignore:DTensor random operators may not",
    ),
]
LLAMA = "perf_tests.llama.torch_train:build"
COSTLY = "tests.torch.costly:build"
TINY = SIZES["tiny"]


def costly(folder: Path, planted: str = "", **given: Any) -> StageCost:
    options = {"planted": planted, **given.pop("options", {})}
    return stage_of(traced(COSTLY, folder, precision="bf16", options=options, **given))


def test_flops_and_parameters_of_llama_are_those_of_its_formula(tmp_path: Path):
    record = traced(LLAMA, tmp_path, options={"model": "tiny"})
    stage = stage_of(record)
    tokens = 4 * TINY.sequence
    matrices = parameter_count(TINY) - TINY.vocabulary * TINY.width - 3 * TINY.width
    # Attention without flash: its backward computes its products again, 2.5 times its forward
    attention = 3.5 * 4 * TINY.layers * TINY.width * TINY.sequence * tokens
    assert stage["flops"] == {"float32": 6 * matrices * tokens + attention}
    assert record["parameters"] == parameter_count(TINY)
    assert stage["parameters"] == {"float32": parameter_count(TINY)}
    assert stage["memory"]["by_kind"]["parameters"] == 4 * parameter_count(TINY)
    # Two moments of each number, and the step of each tensor
    steps = stage["memory"]["by_kind"]["optimizer"] - 8 * parameter_count(TINY)
    assert steps == 4 * (9 * TINY.layers + 3)
    assert sum(stage["memory"]["by_kind"].values()) == stage["memory"]["peak_bytes"]
    assert stage["layers"]["blocks.*"] == TINY.layers
    assert not stage["host_waits"]
    assert not stage["collectives"]


def test_copies_reduce_every_gradient_once(tmp_path: Path):
    stage = stage_of(traced(LLAMA, tmp_path, world_size=8, parallel="ddp", options={"model": ""}))
    assert bytes_by_kind(stage) == {"all-reduce": 4 * parameter_count(TINY)}
    assert {collective["ranks"] for collective in stage["collectives"]} == {8}
    # Its wrapper is no second model
    assert stage["layers"]["blocks.*"] == TINY.layers


@pytest.mark.parametrize("world_size", [8, 64])
def test_shards_gather_parameters_twice_and_scatter_gradients_once(
    tmp_path: Path, world_size: int
):
    """Forward and backward; a parameter's rows are filled up to a multiple of the ranks."""
    stage = stage_of(
        traced(
            LLAMA, tmp_path, world_size=world_size, parallel="fsdp2", precision="bf16",
            options={"model": ""},
        )
    )  # fmt: skip
    with torch.device("meta"):
        shapes = [parameter.shape for parameter in Llama(TINY).parameters()]
    filled = sum(-(-shape[0] // world_size) * world_size * shape[1:].numel() for shape in shapes)
    assert bytes_by_kind(stage) == {"all-gather": 2 * 2 * filled, "reduce-scatter": 4 * filled}
    assert {collective["group"] for collective in stage["collectives"]} == {"dp"}
    held = sum(stage["parameters"].values())
    assert held == pytest.approx(parameter_count(TINY) / world_size, rel=0.1)


def test_parts_of_layers_reduce_their_activations(tmp_path: Path):
    stage = stage_of(traced(LLAMA, tmp_path, world_size=2, parallel="tp2", options={"model": ""}))
    activations = 4 * 4 * TINY.sequence * TINY.width
    # Of attention and of the feed-forward network, forward; of the inputs of their first layers,
    # and of the head's, backward
    in_blocks = [c for c in stage["collectives"] if c["kind"] == "all-reduce"]
    assert {collective["bytes"] for collective in in_blocks} == {activations}
    forward = [c for c in in_blocks if c["phase"] == "forward"]
    assert sum(collective["calls"] for collective in forward) == 2 * TINY.layers
    assert {c["group"] for c in stage["collectives"]} == {"tp"}
    whole = stage_of(traced(LLAMA, tmp_path, options={"model": ""}))
    assert stage["flops"]["float32"] == pytest.approx(whole["flops"]["float32"] / 2)


@pytest.mark.parametrize(
    ("planted", "changed"),
    [
        ("product", {"flops", "launches", "operators"}),
        ("gather", {"collectives"}),
        ("float32", {"flops", "launches", "operators", "memory"}),
        ("item", {"host_waits"}),
        ("unfused", {"launches", "operators", "memory"}),
        ("doubled", {"launches", "operators", "memory"}),
    ],
)
def test_planted_fault_shows_and_nothing_else(tmp_path: Path, planted: str, changed: set[str]):
    given: dict[str, Any] = {"world_size": 8, "parallel": "ddp"}
    found = differences(costly(tmp_path, **given), costly(tmp_path, planted, **given))
    assert set(found) == changed
    if planted == "gather":
        assert found["collectives"]["all-gather"] == 1
    elif planted == "unfused":
        assert {phase for _, phase in found["operators"]} == {"optimizer"}
    elif planted == "item":
        [wait] = found["host_waits"]
        assert wait["what"] == ".item()"
        assert wait["place"].startswith("costly.py:")
    else:
        assert {path.partition(".")[0] for path, _ in found["operators"]} == {"blocks"}


def test_gradients_kept_for_nothing_show_in_memory_alone(tmp_path: Path):
    given = {"options": {"watch": True}}
    found = differences(costly(tmp_path, **given), costly(tmp_path, "grad", **given))
    assert found == {"memory": {"activations"}}


def test_gathered_gradient_is_one_collective_more(tmp_path: Path):
    given: dict[str, Any] = {"world_size": 8, "parallel": "fsdp2"}
    before = costly(tmp_path, **given)
    found = differences(before, costly(tmp_path, "full", **given))
    assert "collectives" in found
    assert "flops" not in found
    assert found["collectives"]["all-gather"] == calls_by_kind(before)["all-gather"] + 1


@pytest.mark.parametrize(
    ("workload", "words", "place"),
    [
        ("build_reading", "No such file or directory: '/no-such-folder/tokens.bin'", True),
        ("build_on_cuda", "a trace has no GPU; let the workload use job.device", True),
        ("build_exiting", "ended its process by SystemExit(3)", True),
        ("build_unknown", "register_fake", True),
        ("build_unique", "depends on numbers, which a trace has not", True),
        ("build_numpy", ".numpy() needs numbers of the device, which a trace has not", True),
        ("build_absent", "has no function 'build_absent'", False),
    ],
)
def test_what_cannot_be_traced_says_why_and_where(
    tmp_path: Path, workload: str, words: str, place: bool
):
    record = traced(f"tests.torch.costly:{workload}", tmp_path)
    assert words in record["problem"]
    assert record["place"].startswith("costly.py:") is place
    assert set(record) == {"format", "problem", "place"}


def test_lengths_that_data_decide_are_the_longest(tmp_path: Path):
    record = traced("tests.torch.costly:build_mask", tmp_path)
    [wait] = stage_of(record)["host_waits"]
    assert wait["what"] == "nonzero"
    assert any("as long as it can be" in note for note in record["notes"])


def test_number_of_the_device_that_shapes_follow_from_is_noted(tmp_path: Path):
    record = traced("tests.torch.costly:build_length", tmp_path)
    [wait] = stage_of(record)["host_waits"]
    assert wait["what"] == ".item()"
    [note] = [note for note in record["notes"] if "whole number" in note]
    assert note.startswith(wait["place"])


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_sparse_gradient_has_the_rows_that_were_looked_up(tmp_path: Path):
    stage = stage_of(traced("tests.torch.costly:build_sparse", tmp_path))
    table = 4 * 1000 * 64
    kinds = stage["memory"]["by_kind"]
    assert kinds["parameters"] == table
    assert kinds["optimizer"] == pytest.approx(table, abs=8)
    assert stage["memory"]["peak_bytes"] < 2.2 * table
    assert not stage["host_waits"]


def test_gather_over_another_dimension_is_told(tmp_path: Path):
    """Of equal bytes; other tensors stay as they are."""
    tensor, data = (
        traced("tests.torch.costly:build_gather", tmp_path, world_size=4, parallel="tp2",
               options={"over": over})
        for over in ("tp", "dp")
    )  # fmt: skip
    findings = cost_findings(cost_comparison(tensor, data), against="main")
    assert [finding.metric for finding in findings] == ["regrouped"]
    assert findings[0].text("what") == (
        "all-gather among dp (2 ranks, 2 apart) in place of tp (2 ranks, 1 apart)"
    )


def test_a_tensor_at_the_address_of_another_is_no_use_of_it(tmp_path: Path):
    """Where the memory of a dropped tensor goes differs from trace to trace."""
    stage = stage_of(traced("tests.torch.costly:build_dropped", tmp_path, world_size=4))
    [reduced] = stage["collectives"]
    assert reduced["calls"] == reduced["overlapped"] == 20


def test_what_is_waited_for_at_once_is_not_overlapped(tmp_path: Path):
    stage = stage_of(traced("tests.torch.costly:build_waited", tmp_path, world_size=4))
    assert calls_by_kind(stage) == {
        "all-reduce": 2, "all-gather": 1, "reduce-scatter": 1, "all-to-all": 1, "send": 1,
        "receive": 1,
    }  # fmt: skip
    assert not {c["kind"] for c in stage["collectives"] if c["overlapped"]}


def test_a_wait_ends_its_own_collective_alone(tmp_path: Path):
    stage = stage_of(traced("tests.torch.costly:build_twice", tmp_path, world_size=4))
    [reduced] = stage["collectives"]
    assert (reduced["calls"], reduced["overlapped"]) == (2, 1)


def test_an_unknown_collective_is_noted(tmp_path: Path):
    record = traced("tests.torch.costly:build_turned", tmp_path, world_size=4)
    assert "turned may be a collective, and is not known here: it is left out" in record["notes"]
    known = traced("tests.torch.costly:build_waited", tmp_path, world_size=4)
    assert not [note for note in known["notes"] if "may be a collective" in note]


def test_arguments_of_meshes_and_operators_are_named_or_not(tmp_path: Path):
    stage = stage_of(traced("tests.torch.costly:build_by_name", tmp_path, world_size=4))
    [reduced] = stage["collectives"]
    assert (reduced["kind"], reduced["ranks"]) == ("all-reduce", 2)
    assert [o["name"] for o in stage["operators"]] == ["moved", "sum"]


def test_an_argument_that_is_a_device_is_seen_by_any_name(tmp_path: Path):
    """What is made on a device that is not the trace's own would not be counted."""
    stage = stage_of(traced("tests.torch.costly:build_target", tmp_path))
    assert [o["name"] for o in stage["operators"]] == ["moved_to", "sum"]


def test_peak_memory_does_not_depend_on_when_garbage_is_collected(tmp_path: Path):
    before = gc.get_threshold()
    peaks = []
    try:
        for threshold in (20, 1_000_000):
            gc.set_threshold(threshold, *before[1:])
            stage = stage_of(traced("tests.torch.costly:build_cycles", tmp_path))
            peaks.append(stage["memory"]["peak_bytes"])
    finally:
        gc.set_threshold(*before)
    assert peaks[0] == peaks[1]
    assert gc.isenabled()


def test_hybrid_shards_gather_within_nodes_and_reduce_over_them(tmp_path: Path):
    stage = stage_of(
        traced("tests.torch.costly:build_hybrid", tmp_path, world_size=64, parallel="hsdp")
    )
    groups = {(c["kind"], c["group"], c["ranks"]) for c in stage["collectives"]}
    assert groups == {
        ("all-gather", "shard", 8), ("reduce-scatter", "shard", 8), ("all-reduce", "replicate", 8),
    }  # fmt: skip
    sizes = bytes_by_kind(stage)
    assert sizes["all-reduce"] == sizes["reduce-scatter"] / 8


@pytest.mark.filterwarnings("default")
def test_stages_of_a_pipeline_are_traced_each(tmp_path: Path):
    record = traced("tests.torch.costly:build_stages", tmp_path, world_size=8, parallel="pp4")
    assert "problem" not in record, record["problem"]
    stages = record["stages"]
    assert [stage["rank"] for stage in stages] == [0, 1, 2, 3]
    # Four microbatches forward and back, but at the ends
    calls = [calls_by_kind(stage) for stage in stages]
    assert calls == [{"send": n, "receive": n} for n in (4, 8, 8, 4)]
    # The first stage has no gradient of its input to compute
    flops = [stage["flops"]["float32"] for stage in stages]
    assert flops[0] <= flops[1] == flops[2] == flops[3]
    assert record["parameters"] == sum(stage["parameters"]["float32"] for stage in stages)
    assert not any("whole number" in note for note in record["notes"])


@pytest.mark.nightly(reason="the other ways to be parallel run in the gate")
@pytest.mark.filterwarnings("default")
def test_split_sequence_gathers_keys_and_values(tmp_path: Path):
    stage = stage_of(
        traced("tests.torch.costly:build_context", tmp_path, world_size=8, parallel="cp4")
    )
    assert {collective["group"] for collective in stage["collectives"]} == {"cp"}
    assert "all-gather" in calls_by_kind(stage)


def test_waits_are_those_for_the_device(tmp_path: Path):
    stage = stage_of(traced("tests.torch.costly:build_waits", tmp_path))
    assert [wait["what"] for wait in stage["host_waits"]] == [".item()", ".cpu()", ".tolist()"]


@pytest.mark.parametrize("seed", ["7"])
def test_process_writes_the_same_record_whatever_its_hashes(tmp_path: Path, seed: str):
    """As the one of this process, in another folder."""
    own = traced(COSTLY, tmp_path, world_size=8, parallel="fsdp2", precision="bf16")
    flags = flags_of(COSTLY, tmp_path, world_size=8, parallel="fsdp2", precision="bf16")
    environment = {
        **os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": seed, "LOCAL_WORLD_SIZE": "8",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }  # fmt: skip
    subprocess.run(
        [sys.executable, "-m", "pytest_dlperf.worker.cost", *flags],
        check=True, cwd=tmp_path, env=environment, timeout=300,
    )  # fmt: skip
    record = json.loads((tmp_path / COST_RECORD).read_text(encoding="utf-8"))
    assert record.pop("elapsed_s") > 0
    # What 100 GB of parameters would need is not there
    assert record.pop("trace_peak_bytes") < 4e9
    assert record == json.loads(json.dumps(own))


def test_size_of_the_case_needs_no_memory(tmp_path: Path):
    stage = stage_of(traced("tests.torch.costly:build_large", tmp_path))
    assert stage["memory"]["peak_bytes"] > 3e11


def test_another_framework_is_a_problem(tmp_path: Path):
    from pytest_dlperf.worker.cost.__main__ import _traced

    record = _traced(arguments_of("anything:build", tmp_path, framework="paddle"))
    assert "traced in torch and jax" in record["problem"]


def test_an_older_version_is_a_problem_that_says_which_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from pytest_dlperf.worker.cost.__main__ import _traced

    lowest = FRAMEWORKS["torch"].lowest_traced
    assert lowest is not None
    needed = f"torch>={'.'.join(map(str, lowest))}"
    monkeypatch.setattr(torch, "__version__", f"{lowest[0]}.{lowest[1] - 1}.9+cu121")
    problem = _traced(arguments_of("anything:build", tmp_path))["problem"]
    assert f"a trace needs {needed}, and this is torch" in problem
    assert f"pip install '{needed}'" in problem


def test_a_version_that_lacks_a_name_is_a_problem_of_the_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delattr(_fsdp_param_group.FSDPParamGroup, "post_backward")
    problem = traced("tests.torch.costly:build_mask", tmp_path)["problem"]
    assert problem.startswith(f"torch {torch.__version__} lacks what a trace uses")
    assert "'post_backward'" in problem
    assert "install a newer pytest-dlperf or an older torch" in problem


def test_a_name_that_a_workload_lacks_is_no_problem_of_the_version(tmp_path: Path):
    record = traced("tests.torch.costly:build_misspelt", tmp_path)
    assert record["problem"].startswith("AttributeError: ")
    assert record["place"].startswith("costly.py:")


@pytest.mark.nightly(reason="imports Dynamo, which takes long")
@pytest.mark.filterwarnings("default")
def test_graph_break_shows_with_its_line(tmp_path: Path):
    before, after = (
        traced(COSTLY, tmp_path, precision="bf16", options={"planted": planted, "compile": True})
        for planted in ("", "break")
    )
    assert before["notes"] == after["notes"]
    found = differences(stage_of(before), stage_of(after))
    assert set(found) == {"graph_breaks"}
    [broken] = found["graph_breaks"]
    assert broken["place"].startswith("costly.py:")
    assert broken["count"] == 1


@pytest.mark.nightly(reason="ranks of gloo, whose start takes long")
def test_trace_agrees_with_real_ranks(tmp_path: Path):
    """Exactly on FLOPs; on memory as PyTorch's own tracker sees tensors, but for the buckets."""
    alone, first, second = reports_of(Path(__file__).parent / "costly_ranks.py", tmp_path)
    for world_size, real in ((1, alone), (2, first), (2, second)):
        stage = costly(tmp_path, device="cpu", world_size=world_size, parallel="ddp")
        assert stage["flops"] == real["flops"]
        assert stage["memory"]["peak_bytes"] == pytest.approx(real["peak_bytes"], rel=0.02)
