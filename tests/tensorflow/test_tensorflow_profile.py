"""The profile of a few steps of a TensorFlow training, in this process and in two ranks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.worker.frameworks.tensorflow.profile import profile
from tests.helpers.profiled_steps import (
    Framework,
    calls_of,
    profile_alike_everywhere,
    trace_names,
)
from tests.tensorflow.conftest import tensorflow_session

pytestmark = pytest.mark.tensorflow
PARTS = {"compute", "waiting for data", "Python and launches"}


def profiled(folder: Path, monkeypatch: pytest.MonkeyPatch, *, traces: bool) -> ProfileRecord:
    profile_alike_everywhere(monkeypatch)
    framework = Framework(keep=float)
    seeded = tf.keras.initializers.GlorotUniform(seed=1)
    hidden = tf.keras.layers.Dense(8, activation="relu", name="hidden", kernel_initializer=seeded)
    net = tf.keras.Sequential([hidden])
    net.build((4, 8))
    variables = net.trainable_variables
    optimizer = tf.keras.optimizers.SGD(0.1)
    batches = framework.job.feed.batches([tf.ones((4, 8))] * 3)

    def update(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(net(x)))
        gradients = tape.gradient(loss, variables)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    train = tf.function(update)
    train(next(batches))

    def step() -> Any:
        return (tf.function(update) if traces else train)(next(batches))

    return profile(framework, step, folder, on_gpu=False)  # type: ignore[arg-type]


def without_onednn(name: str) -> str:
    """Return TensorFlow's own name of an operator that oneDNN does on this CPU.

    It does products by itself, as ``_MklMatMul`` or ``_MklNativeFusedMatMul``, where the CPU has
    instructions for them (AVX512-VNNI, for one).
    """
    return re.sub(
        r"^_Mkl(?:Native)?(Fused)?", lambda found: f"_{found[1]}" if found[1] else "", name
    )


def test_operators_are_known_by_their_layer_and_parts_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    found = profiled(tmp_path, monkeypatch, traces=False)
    named = calls_of(found, tmp_path, *PARTS)
    calls = {(path, without_onednn(name)): count for (path, name), count in named.items()}
    assert all(set(window["parts"]) == PARTS for window in found["windows"])
    assert calls["sequential.hidden", "_FusedMatMul"] == 1
    assert calls["sequential.hidden (backward)", "ReluGrad"] == 1
    assert calls["sequential.hidden (backward)", "MatMul"] == 1
    assert calls["data", "DataLoader"] == 1
    assert {"dlperf.step", "process_name"} <= trace_names(found, tmp_path)
    assert "memory" not in found


def test_a_function_that_each_step_traces_again_is_a_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    found = profiled(tmp_path, monkeypatch, traces=True)
    assert all(window["parts"]["compilation"] > 0 for window in found["windows"])


def test_a_profiler_that_crashes_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def crash(*_given: Any) -> None:
        raise RuntimeError("CUPTI\nis in use")

    monkeypatch.setattr(tf.profiler.experimental, "start", crash)
    assert profiled(tmp_path, monkeypatch, traces=False) == {
        "problem": "tf.profiler failed: RuntimeError: CUPTI"
    }
    assert not list(tmp_path.iterdir())


@pytest.mark.nightly  # eight launches of two ranks
@pytest.mark.parametrize("launcher", ["horovodrun", "tf-multiworker"])
def test_a_product_that_one_arm_alone_has_is_named(tmp_path: Path, launcher: str):
    keys = {"iterations": 12, "warmup": 4, "runs": 2, "max_runs": 2, "launcher": launcher}
    session = tensorflow_session(
        tmp_path, {"extra": keys}, "--dlperf-against=EXTRA=no", "--dlperf-explain=always",
        EXTRA="yes",
    )  # fmt: skip
    found = session["extra"].outcome["explanation"]
    assert found["note"] == ""
    rows = {(row["path"], without_onednn(row["operator"])): row for row in found["operators"]}
    product = rows["extra", "MatMul"]
    assert (product["before_calls"], product["after_calls"]) == (0, 1)
    assert product["part"] == "compute"
    total = sum(part["difference_ms"] for part in found["parts"])
    assert total == pytest.approx(found["after_ms"] - found["before_ms"])
    assert {"compute", "exposed communication"} <= {part["part"] for part in found["parts"]}
    assert len(found["traces"]) == 2
