"""Records of what JAX's products are done in, and of what nobody can count."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_dlperf.worker.failure import WorkerFailure, check_tf32
from tests.helpers.one_session import OneSession
from tests.jax.conftest import jax_session

pytestmark = pytest.mark.jax

#: Operations of the product of one rank forward; the weights' gradient has as many.
FORWARD = 2 * 8 * 16 * 8
#: By the option of the workload: what its float32 products let a GPU use.
PRODUCTS = {
    "plain": [False],
    "default": [True],
    "context": [True],
    "groups": [False],
    "while": [False],
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> OneSession:
    common = {"workload": "unseen:build", "layout": "1n1c", "iterations": 12, "warmup": 4}
    tests = {name: {**common, "options": {"product": name}} for name in PRODUCTS}
    return jax_session(tmp_path_factory.mktemp("unseen"), tests)


def record_of(trained: OneSession, name: str, kind: str) -> dict[str, Any]:
    case = trained[name].outcome["case"]["id"]
    [path] = trained.folder.path.glob(f".dlperf/*/{case}/run1/rank00000.jsonl")
    records = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return next(one for one in records if one["record"] == kind)


@pytest.mark.parametrize("name", PRODUCTS)
def test_what_a_product_says_of_itself_is_recorded(trained: OneSession, name: str):
    arithmetic = record_of(trained, name, "arithmetic")
    assert arithmetic["tf32_in_step"] == {"matmul": PRODUCTS[name]}
    assert arithmetic["tf32"] == {"matmul": False}, "the configuration knows nothing of it"


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_case_in_float32_would_be_refused_on_a_gpu_by_any_product_in_tf32(
    trained: OneSession, name: str
):
    """The records are real, the device is simulated."""
    arithmetic: Any = record_of(trained, name, "arithmetic")
    if True not in PRODUCTS[name]:
        check_tf32(arithmetic, "fp32", on_gpu=True)
        return
    with pytest.raises(WorkerFailure, match="TF32 was on for matmul"):
        check_tf32(arithmetic, "fp32", on_gpu=True)


def test_groups_are_counted(trained: OneSession):
    model = record_of(trained, "groups", "model")
    assert model["flops_by_dtype"] == {"float32": 2 * FORWARD}
    assert "uncounted" not in model
    assert record_of(trained, "plain", "model")["flops_by_dtype"] == {"float32": 2 * FORWARD}


def test_a_loop_around_nobody_knows_how_often_is_named(trained: OneSession):
    assert record_of(trained, "while", "model")["uncounted"] == {"while": ["float32"]}
    [run] = trained["while"].measurement["runs"]
    [message] = [p["message"] for p in run["problems"] if p["code"] == "checked-in-part"]
    assert "the second iteration ran while (given float32), which nothing" in message
    assert "flop_per_s_per_device" not in run["extras"]
    [plain] = trained["plain"].measurement["runs"]
    assert "flop_per_s_per_device" in plain["extras"]
