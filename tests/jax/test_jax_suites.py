"""ResNet-50 in JAX: the model is the published one, and trains at tiny size in every way."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from perf_tests.resnet50 import jax_train
from perf_tests.resnet50.recipe import SIZES
from pytest_dlperf.worker.frameworks.jax.flops import work_of
from tests.helpers.suites import train_suites

pytestmark = pytest.mark.jax


def test_resnet50_has_the_published_parameters_and_operations():
    parameters, statistics = jax.eval_shape(
        lambda key: jax_train.initial(SIZES["full"], key), jax.random.key(0)
    )
    # As the other frameworks' tests have it, and 4.09 billion multiply-adds an image
    assert sum(leaf.size for leaf in jax.tree.leaves(parameters)) == 25_557_032
    image = jax.ShapeDtypeStruct((1, 224, 224, 3), jnp.float32)
    forward = jax.make_jaxpr(lambda *given: jax_train.Model(*given[:2]).logits(given[2]))
    found = work_of(forward(parameters, statistics, image).jaxpr).flops
    assert found["float32"] == pytest.approx(2 * 4.09e9, rel=1e-3)


@pytest.mark.parametrize(
    ("precision", "devices_per_process"),
    [
        ("fp32", 1),
        # The gate has the small net of test_jax_training.py in these ways.
        pytest.param("fp32", 2, marks=pytest.mark.nightly),
        pytest.param("bf16", 1, marks=pytest.mark.nightly),
    ],
)
def test_resnet50_trains_at_tiny_size(tmp_path: Path, precision: str, devices_per_process: int):
    which = "per_process2" if devices_per_process == 2 else "not per_process2"
    done, outcomes = train_suites(
        tmp_path, f"resnet50 and jax and {precision} and {which}", "--cpus=2",
        f"--dlperf-precision={precision}",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    found = [(o["case"]["devices_per_process"], str(o["case"]["layout"])) for o in outcomes]
    assert found == [(devices_per_process, "1n2c")]
    for outcome in outcomes:
        measurement = outcome["measurement"]
        assert measurement["conditions"]["input_shapes"] == [[32, 32, 32, 3], [32]]
        run = measurement["runs"][-1]
        assert len(run["step_seconds"]) == 150
        assert all(rank["loss_last"] < rank["loss_first"] for rank in run["ranks"])
        assert run["extras"]["recompiles"] == 0
