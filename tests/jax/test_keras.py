"""Models of Keras 3: the example, on JAX and on PyTorch."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.user_folder import Folder

# Keras and PyTorch are in the nightly environment alone. Keras is not imported here: it would
# choose a backend.
pytestmark = [
    pytest.mark.jax,
    pytest.mark.nightly,
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("keras", "torch"))),
        reason="Keras or PyTorch is not installed: tox -e jax-nightly",
    ),
]
EXAMPLE = Path(__file__).parents[2] / "examples/keras"


@pytest.fixture
def example(folder: Folder) -> dict[str, dict[str, Any]]:
    """What was measured of each test, one run each, by its suite."""
    shutil.copytree(EXAMPLE, folder.path, dirs_exist_ok=True)
    result, outcomes = folder.run(
        "-p", "tests.helpers.no_repeats", "--dlperf-runs=1", "--dlperf-max-runs=1"
    )
    assert result.ret == 0
    found = {}
    for outcome in outcomes:
        assert outcome["measurement"] is not None, outcome["judgement"]["reason"]
        found[f"{outcome['case']['suite']} on {outcome['case']['layout']}"] = outcome[
            "measurement"
        ]
    return found


def test_the_example(example: dict[str, dict[str, Any]]):
    assert set(example) == {"keras_on_jax on 1n2c", "keras_on_torch on 1n2c", "keras_fit on 1n1c"}
    for suite in ("keras_on_jax", "keras_on_torch"):
        measured = example[f"{suite} on 1n2c"]
        conditions, [run] = measured["conditions"], measured["runs"]
        assert conditions["parameter_count"] == 32 * 64 + 64 + 64 * 4 + 4
        assert conditions["dtype"] == "float32"
        assert [8, 32] in conditions["input_shapes"]
        assert [rank["rank"] for rank in run["ranks"]] == [0, 1]
        assert all(rank["loss_last"] < rank["loss_first"] for rank in run["ranks"])
        # Forward once, backward to both weights and to the hidden activations
        flops = 2 * 8 * (2 * 32 * 64 + 3 * 64 * 4)
        seconds = max(rank["seconds"] for rank in run["ranks"])
        assert run["extras"]["flop_per_s_per_device"] == pytest.approx(100 * flops / seconds)
    [run] = example["keras_fit on 1n1c"]["runs"]
    assert len(run["step_seconds"]) == 150
    assert run["ranks"][0]["loss_first"] > 0
