"""What looks at a training neither ends it nor passes over what it did not see."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.one_session import OneSession, run_together
from tests.helpers.user_folder import HERE

pytestmark = pytest.mark.torch

WIDTH, PLACES, BATCH = 16, 8, 8
#: Operations of the head in an iteration, whose input needs no gradient; and of that gradient.
GRADIENT = 2 * BATCH * PLACES * WIDTH * 4
HEAD = 2 * GRADIENT
#: Four for each of two heads, query, key and channel.
ATTENTION = 4 * BATCH * PLACES * PLACES * WIDTH
#: A product of each place with eight square matrices, and twice as many backward.
LSTM = 3 * 2 * BATCH * PLACES * 8 * WIDTH * WIDTH


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> OneSession:
    common = {"workload": "unseen:build", "layout": "1n1c", "iterations": 12, "warmup": 4,
              "batch_size_per_device": BATCH, "metrics": {"tflops": None}}  # fmt: skip
    layers = (
        "experts", "flex", "flex-compiled", "lstm", "unseen", "unseen-half", "unwatchable"
    )  # fmt: skip
    tests = {name.replace("-", "_"): {**common, "options": {"layer": name}} for name in layers}
    return run_together(tmp_path_factory.mktemp("unseen"), tests, workloads=HERE)


def model_of(trained: OneSession, name: str) -> dict[str, Any]:
    """Return the record of what was looked at."""
    case = trained[name].outcome["case"]["id"]
    [path] = trained.folder.path.glob(f".dlperf/*/{case}/run1/rank00000.jsonl")
    records = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return next(one for one in records if one["record"] == "model")


def problems_of(trained: OneSession, name: str) -> dict[str, str]:
    [run] = trained[name].measurement["runs"]
    return {problem["code"]: problem["message"] for problem in run["problems"]}


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("flex", ATTENTION + HEAD),
        ("flex_compiled", ATTENTION + HEAD),
        ("lstm", LSTM + HEAD + GRADIENT),
    ],
)
def test_what_has_a_formula_is_counted(trained: OneSession, name: str, operations: int):
    assert model_of(trained, name)["flops_by_dtype"] == {"float32": operations}
    assert "uncounted" not in model_of(trained, name)
    assert not problems_of(trained, name).keys() & {"precision-unchecked", "checked-in-part"}
    [run] = trained[name].measurement["runs"]
    assert run["metrics"]["tflops"]["value"] > 0


def test_experts_in_a_shorter_dtype_are_not_passed_by_their_head(trained: OneSession):
    trained["experts"].assert_error("this run did it in bfloat16 73%, float32 27%")


@pytest.mark.parametrize(
    ("name", "code", "dtype"),
    [
        ("unseen", "checked-in-part", "float32"),
        ("unseen_half", "precision-unchecked", "bfloat16"),
    ],
)
def test_an_operator_without_a_formula_is_named_and_nothing_is_derived(
    trained: OneSession, name: str, code: str, dtype: str
):
    assert model_of(trained, name)["uncounted"] == {"dlperf_tests::mixed": [dtype]}
    found = problems_of(trained, name)
    assert f"the second iteration ran dlperf_tests::mixed (given {dtype}), which" in found[code]
    assert "TFLOP/s, HFU and MFU are left out" in found[code]
    assert "metric tflops is gated, and this run has none" in found["metric-unknown"]
    [run] = trained[name].measurement["runs"]
    assert not {"flop_per_s_per_device", "model_flop_per_s_per_device"} & run["extras"].keys()


def test_a_step_that_fails_while_it_is_looked_at_is_done_again(trained: OneSession):
    record = model_of(trained, "unwatchable")
    assert record["flops_by_dtype"] == {}
    assert "raised OutOfMemoryError: CUDA out of memory" in record["unwatched"]
    assert "it was repeated without" in problems_of(trained, "unwatchable")["precision-unchecked"]
    [run] = trained["unwatchable"].measurement["runs"]
    assert len(run["step_seconds"]) == 12
