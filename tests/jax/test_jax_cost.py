"""What a step in JAX asks for, traced on abstract arrays: formulas, theory, planted faults."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perf_tests.llama.recipe import SIZES, parameter_count
from pytest_dlperf.core.cost_record import checked_cost
from pytest_dlperf.core.wire_cost import CostRecord
from pytest_dlperf.judge.cost import cost_comparison, cost_findings
from tests.helpers.perf_project import PerfProject, perf_test
from tests.helpers.traced import bytes_by_kind, stage_of, traced_apart
from tests.jax.costly import BLOCKS, PARAMETERS, TOKENS, WIDTH

pytestmark = pytest.mark.jax
LLAMA = "perf_tests.llama.jax_train:build"
TINY = SIZES["tiny"]
#: Figures that a trace of JAX does not count.
ABSENT = {"graph_breaks", "recompilations"}
OPTIONS = ("--dlperf-cost", "--dlperf-history=off")


def costly(folder: Path, planted: str = "", name: str = "build", **given: Any) -> CostRecord:
    given = {"precision": "bf16", "options": {"planted": planted}, **given}
    return traced_apart(f"tests.jax.costly:{name}", folder, framework="jax", **given)


def metrics(before: CostRecord, now: CostRecord) -> dict[str, str]:
    """Return the figures that changed, with the path of each."""
    findings = cost_findings(cost_comparison(before, now), against="main")
    return {finding.metric: finding.text("path") for finding in findings if finding.metric}


def test_llama_has_the_flops_and_parameters_of_its_formula(tmp_path: Path):
    record = traced_apart(LLAMA, tmp_path, framework="jax", options={"model": "tiny"})
    stage = stage_of(checked_cost(record))
    tokens = 4 * TINY.sequence
    matrices = parameter_count(TINY) - TINY.vocabulary * TINY.width - 3 * TINY.width
    attention = 12 * TINY.layers * TINY.width * TINY.sequence * tokens
    assert stage["flops"] == {"float32": 6 * matrices * tokens + attention}
    assert record["parameters"] == parameter_count(TINY)
    assert stage["parameters"] == {"float32": parameter_count(TINY)}
    assert record["work"] == tokens
    assert not stage["collectives"]
    assert not ABSENT & stage.keys()
    # Its blocks are the rounds of a loop, and have phases
    phases = {o["phase"] for o in stage["operators"] if o["path"] == "jax_model.block"}
    assert {"forward", "backward"} <= phases


def test_copies_reduce_every_gradient_once(tmp_path: Path):
    record = traced_apart(
        LLAMA, tmp_path, framework="jax", world_size=8, parallel="ddp", options={"model": ""}
    )
    stage = stage_of(record)
    # Parameters and two moments on each device, the number of steps, and two batches of tokens
    arguments = 3 * 4 * parameter_count(TINY) + 4 + 2 * 4 * 4 * TINY.sequence
    assert {"path": "", "kind": "arguments", "bytes": arguments} in stage["memory"]["at_peak"]
    # And the loss
    assert bytes_by_kind(stage) == {"all-reduce": 4 * parameter_count(TINY) + 4}
    assert {(c["group"], c["ranks"]) for c in stage["collectives"]} == {("dp", 8)}
    assert record["work"] == 8 * 4 * TINY.sequence


@pytest.mark.parametrize(("parallel", "tensor"), [("fsdp2", 1), ("fsdp2-tp2", 2)])
def test_shards_split_the_batch_as_copies_do(tmp_path: Path, parallel: str, tensor: int):
    """XLA may split activations as the parameters are, and give each device the whole batch."""
    record = traced_apart(
        LLAMA, tmp_path, framework="jax", world_size=8, parallel=parallel, options={"model": ""}
    )
    stage = stage_of(record)
    tokens = 4 * TINY.sequence
    matrices = parameter_count(TINY) - TINY.vocabulary * TINY.width - 3 * TINY.width
    attention = 12 * TINY.layers * TINY.width * TINY.sequence * tokens
    assert stage["flops"] == {"float32": (6 * matrices * tokens + attention) / tensor}


def traces(folder: Path, devices: int, *faults: str) -> list[CostRecord]:
    """Return the records of the small training with each fault, of one process."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.jax.many_traces", str(folder), str(devices), *faults],
        check=True, stdout=subprocess.PIPE, timeout=900, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    records: list[CostRecord] = json.loads(done.stdout)
    return records


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CostRecord]:
    """Return the small training on one device by what is planted; ``same`` has nothing."""
    faults = (
        "",
        "same",
        "product",
        "float32",
        "activations",
        "callback",
        "wait",
        "wait itself",
        "get",
    )
    return dict(zip(faults, traces(tmp_path_factory.mktemp("t"), 1, *faults), strict=True))


def test_planted_product_is_found_at_its_scope_and_nothing_else_is(
    planted: dict[str, CostRecord],
):
    before = planted[""]
    assert planted["same"] == before
    assert metrics(before, planted["same"]) == {}
    rows = 4 * TOKENS
    product = 2 * rows * WIDTH * 4 * WIDTH
    head = 2 * rows * WIDTH
    # The input of the first layer has no gradient
    flops = product * (3 * 2 * BLOCKS - 1) + 3 * head
    stage = stage_of(before)
    assert stage["flops"] == {"bfloat16": flops}
    assert stage["layers"]["blocks.*.up"] == BLOCKS
    assert before["parameters"] == PARAMETERS

    more = planted["product"]
    assert stage_of(more)["flops"] == {"bfloat16": flops + product}
    grown = metrics(before, more)
    assert grown.keys() >= {"flops", "memory_traffic", "launches"}
    assert set(grown.values()) == {"blocks.*.up"}


def test_planted_float32_is_found_at_its_scope(planted: dict[str, CostRecord]):
    before, wide = planted[""], planted["float32"]
    product = 2 * 4 * TOKENS * WIDTH * 4 * WIDTH
    [flops] = stage_of(before)["flops"].values()
    # TF32, as a GPU has it
    assert stage_of(wide)["flops"] == {"bfloat16": flops - 3 * product, "tf32": 3 * product}
    changed = metrics(before, wide)
    assert changed["flops"] == "blocks.*.down"
    assert not {"collectives", "host_waits"} & changed.keys()


def test_planted_activations_are_found_at_their_scope(planted: dict[str, CostRecord]):
    before, more = planted[""], planted["activations"]
    grown = metrics(before, more)
    assert grown.keys() == {"peak_memory", "launches", "memory_traffic"}
    assert set(grown.values()) == {"blocks.*.up"}
    held = [stage_of(record)["memory"]["by_kind"] for record in (before, more)]
    assert held[1]["temporaries"] - held[0]["temporaries"] >= 4 * TOKENS * 4 * WIDTH * 2
    assert held[1]["arguments"] == held[0]["arguments"]


def test_planted_waits_for_the_host_are_found_with_their_lines(planted: dict[str, CostRecord]):
    assert stage_of(planted[""])["host_waits"] == []
    source = (Path(__file__).parent / "costly.py").read_text(encoding="utf-8").splitlines()
    for fault, what in (
        ("callback", "debug_callback"), ("wait", "block_until_ready"),
        ("wait itself", "block_until_ready"), ("get", "device_get"),
    ):  # fmt: skip
        grown = metrics(planted[""], planted[fault])
        assert grown.keys() == {"host_waits"}
        [wait] = stage_of(planted[fault])["host_waits"]
        assert (wait["what"], wait["count"]) == (what, 1)
        assert wait["place"] == grown["host_waits"]
        assert what.replace("_call", ".call") in source[int(wait["place"].split(":")[1]) - 1]


@pytest.mark.nightly(reason="twenty-one traces")
def test_equal_steps_have_equal_costs_whatever_traced_them(tmp_path: Path):
    first, *others = traces(tmp_path, 1, *[""] * 21)
    assert all(other == first for other in others)


def test_state_that_the_program_alone_has_is_counted(tmp_path: Path):
    """Momenta are no result of the step, and several programs make them."""
    one, parts = (
        stage_of(costly(tmp_path / name, name=name, world_size=2, precision="fp32"))
        for name in ("build", "build_in_parts")
    )
    assert parts["flops"] == one["flops"]
    assert bytes_by_kind(parts) == bytes_by_kind(one)
    # Of each parameter the mean is multiplied once more
    up = f"{WIDTH}x{4 * WIDTH} float32"
    multiplied = [
        sum(o["calls"] for o in stage["operators"]
            if (o["name"], o["phase"]) == ("multiply", "rest") and o["shapes"] == f"{up}, {up}")
        for stage in (one, parts)
    ]  # fmt: skip
    assert multiplied == [BLOCKS, 2 * BLOCKS]


@pytest.mark.parametrize(
    ("planted", "given", "words", "place"),
    [
        ("item", {}, "It needs numbers of the device, which a trace has not", "costly.py:"),
        ("", {"parallel": "pp2", "world_size": 2}, "stages of a pipeline are not traced", ""),
        ("", {"precision": "amp"}, "precision amp is not there for jax", ""),
    ],
)
def test_what_cannot_be_traced_says_why_and_where(
    tmp_path: Path, planted: str, given: dict[str, Any], words: str, place: str
):
    record = costly(tmp_path, planted, **given)
    assert words in record["problem"]
    assert record["place"].startswith(place)
    assert set(record) == {"format", "problem", "place"}


def test_size_of_the_case_needs_no_memory(tmp_path: Path):
    record = costly(tmp_path, name="build_large", world_size=2, precision="fp32")
    assert stage_of(record)["parameters"]["float32"] > 3e10
    assert record["trace_peak_bytes"] < 2e9


def test_rounds_that_values_decide_are_noted(tmp_path: Path):
    record = costly(tmp_path, name="build_unknown_rounds", precision="fp32")
    assert stage_of(record)["flops"] == {"float32": 2 * WIDTH**3}
    assert any("its body counts once" in note for note in record["notes"])


def test_gate_stores_a_cost_and_finds_a_planted_product(tmp_path: Path):
    project = PerfProject(tmp_path)
    project.environment["PYTHONPATH"] = str(Path(__file__).parents[2])

    def measured(planted: str, *options: str) -> dict[str, Any]:
        source = (Path(__file__).parent / "costly.py").read_text(encoding="utf-8")
        project.write_file(
            "costly_copy.py", source.replace('job.options.get("planted", "")', repr(planted), 1)
        )
        project.write_tests(
            perf_test(
                "costly_copy:build", name="costly", framework="jax", precision="bf16",
                layout="1n2g", batch_size_per_device=4,
            )
        )  # fmt: skip
        _, [outcome] = project.measured(*OPTIONS, *options)
        return outcome

    assert measured("", "--update-baselines")["update"] == "created"
    assert measured("")["judgement"]["verdict"] == "passed"
    judgement = measured("product")["judgement"]
    assert judgement["code"] == "costs-more:flops"
    assert judgement["reason"].startswith("blocks.*.up: ")


@pytest.mark.nightly(reason="compiles and trains on host devices")
@pytest.mark.parametrize("parallel", ["ddp", "fsdp2"])
def test_trace_counts_the_program_that_a_training_compiles(tmp_path: Path, parallel: str):
    given = {"framework": "jax", "world_size": 8, "parallel": parallel, "precision": "bf16"}
    stage = stage_of(traced_apart(LLAMA, tmp_path / "trace", **given, options={"model": ""}))
    program = Path(__file__).parent / "compiled_counts.py"
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path), parallel],
        check=True, stdout=subprocess.PIPE, timeout=300,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    real = json.loads(done.stdout)
    assert stage["flops"] == real["flops"]
    assert stage["operators"] == real["operators"]
    assert [{**c, "group": ""} for c in stage["collectives"]] == [
        {**c, "group": ""} for c in real["collectives"]
    ]
