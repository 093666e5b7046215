"""What the canary of a GPU multiplies in TensorFlow, tried on a CPU in small."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from pytest_dlperf.worker.frameworks import canary
from pytest_dlperf.worker.frameworks.tensorflow.framework import measure_canary
from pytest_dlperf.worker.frameworks.tensorflow.ranks import Alone

pytestmark = pytest.mark.tensorflow

SMALL = canary.Work(
    side=64, copied=100, reduced=10, matmul_s=0.0, copy_s=0.0, all_reduces=5, launches=3
)


@pytest.mark.parametrize(
    ("precision", "on_gpu", "dtype"),
    [
        ("amp", False, "float32"),
        ("fp32", True, "float32"),
        ("amp", True, "float16"),
        ("bf16", True, "bfloat16"),
    ],
)
def test_random_numbers_of_the_type_that_the_case_computes_in(
    monkeypatch: pytest.MonkeyPatch, precision: str, on_gpu: bool, dtype: str
):
    factors: list[Any] = []
    multiply = tf.matmul

    def noted(left: Any, right: Any) -> Any:
        factors.append((left, right))
        return multiply(left, right)

    monkeypatch.setattr(canary, "work_of", lambda *, on_gpu: SMALL)
    monkeypatch.setattr(tf, "matmul", noted)
    tf.random.set_seed(7)
    expected = tf.random.normal([4]).numpy()
    tf.random.set_seed(7)
    found = measure_canary(Alone(), precision, on_gpu=on_gpu)
    assert np.array_equal(tf.random.normal([4]).numpy(), expected), "the training's are others"
    assert all(name.startswith("sustained_") is on_gpu for name in found)
    assert sum(rate is not None for rate in found.values()) == 2
    assert len(factors) == (1 + 5) * 3
    for left, right in factors:
        assert left.dtype.name == right.dtype.name == dtype
        values = tf.cast(left, tf.float32).numpy()
        assert values.std() == pytest.approx(float(on_gpu), abs=0.1)
