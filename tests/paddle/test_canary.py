"""What the canary of a GPU multiplies in Paddle, tried on a CPU in small."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pytest_dlperf.worker.frameworks import canary

pytestmark = pytest.mark.paddle

paddle = pytest.importorskip("paddle")

SMALL = canary.Work(
    side=64, copied=100, reduced=10, matmul_s=0.0, copy_s=0.0, all_reduces=5, launches=3
)


@pytest.mark.parametrize("on_gpu", [False, True])
def test_random_numbers_that_are_not_the_trainings(monkeypatch: pytest.MonkeyPatch, on_gpu: bool):
    from pytest_dlperf.worker.frameworks.paddle.framework import measure_canary

    factors: list[Any] = []
    multiply = paddle.matmul

    def noted(left: Any, right: Any) -> Any:
        factors.append((left.numpy(), right.numpy()))
        return multiply(left, right)

    monkeypatch.setattr(canary, "work_of", lambda *, on_gpu: SMALL)
    monkeypatch.setattr(paddle, "matmul", noted)
    # There is nothing to wait for here, and half of a float is not multiplied on a CPU
    monkeypatch.setattr(paddle.device, "synchronize", lambda: None)
    paddle.seed(7)
    expected = paddle.randn([4]).numpy()
    paddle.seed(7)
    found = measure_canary("fp32", on_gpu=on_gpu)
    assert np.array_equal(paddle.randn([4]).numpy(), expected), "the training draws other numbers"
    assert all(name.startswith("sustained_") is on_gpu for name in found)
    assert sum(rate is not None for rate in found.values()) == 2
    # One repetition to warm up and the fewest that count, of three launches each
    assert len(factors) == (1 + 5) * 3
    for left, right in factors:
        assert left.dtype == right.dtype == np.float32
        assert left.std() == pytest.approx(float(on_gpu), abs=0.1)
        assert np.array_equal(left, right) is not on_gpu
