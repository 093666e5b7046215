"""The suites in Paddle train as those in PyTorch do: same weights, same batch, same numbers.

float64 shows that the two are the same training. float32 shows how far rounding alone parts
them: losses agree to 7 digits, gradients to some 1 % where batch normalisation divides by the
spread of a few values, as in DeepLabV3+ over the two pooled images of a batch.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from tests.helpers.framework_pairs import as_in_paddle, as_in_torch, trainings

# Both frameworks in one environment, and what it compares changes with the suites alone.
pytestmark = [pytest.mark.agreement, pytest.mark.nightly]
SUITES = pytest.mark.parametrize(
    ("suite", "batch_size"),
    [
        ("tsm", 2),
        ("deeplabv3p", 2),
        ("hrnet", 2),
        ("arcface", 16),
        ("resnet50", 32),
        ("bert", 4),
        ("transformer", 32),
    ],
)
#: Relative. Paddle smooths ResNet-50's labels by a float32 0.1, DeepLabV3+ ends in float32.
LOSS = {"float64": 5e-7, "float32": 1e-5}
GRADIENT = {"float64": 1e-6, "float32": 0.03}
#: Of the way that weights went in three iterations; the smallest weight decay is 6e-5 of it.
MOVED = 1e-6
#: Paddle keeps the powers of Adam's betas in float32: 1 - 0.997 has five digits there.
MOVED_BY_ADAM = {"transformer": 3e-5}


def flat(arrays: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([arrays[name].ravel() for name in sorted(arrays)])


def apart(left: np.ndarray, right: np.ndarray) -> float:
    """Return the length of the difference as a share of the length."""
    return float(np.linalg.norm(left - right) / np.linalg.norm(left))


def weights_of_torch(models: dict[str, Any], *, gradients: bool = False) -> dict[str, np.ndarray]:
    return {
        f"{name}.{key}": array.copy()
        for name, model in models.items()
        for key, array in as_in_paddle(model, gradients=gradients).items()
        if "running" not in key
    }


def weights_of_paddle(models: dict[str, Any], *, gradients: bool = False) -> dict[str, np.ndarray]:
    return {
        as_in_torch(f"{name}.{key}"): (weight.grad if gradients else weight).numpy()
        for name, model in models.items()
        for key, weight in model.named_parameters()
        if not weight.stop_gradient
    }


@SUITES
def test_one_iteration_has_the_same_loss_and_gradients(suite: str, batch_size: int, dtype: str):
    ours, theirs = trainings(suite, batch_size, dtype)
    assert float(theirs.step()) == pytest.approx(ours.step().item(), rel=LOSS[dtype])
    left = weights_of_torch(ours.models, gradients=True)
    right = weights_of_paddle(theirs.models, gradients=True)
    assert left.keys() == right.keys()
    left, right = flat(left), flat(right)
    assert np.linalg.norm(right) == pytest.approx(np.linalg.norm(left), rel=GRADIENT[dtype])
    assert apart(left, right) < GRADIENT[dtype]


@SUITES
@pytest.mark.parametrize("dtype", ["float64"], indirect=True)
def test_three_iterations_move_the_weights_alike(
    suite: str, batch_size: int, dtype: str, monkeypatch: pytest.MonkeyPatch
):
    """Rate, schedule, momentum and decay are the same: each would show in three steps.

    At the tiny sizes' own rates a rounding error that turns one ReLU grows a thousandfold with
    every step; at a ten-thousandth of them it stays small.
    """
    sizes = import_module(f"perf_tests.{suite}.recipe").SIZES
    slow = sizes["tiny"]._replace(learning_rate=sizes["tiny"].learning_rate / 10_000)
    monkeypatch.setitem(sizes, "tiny", slow)
    ours, theirs = trainings(suite, batch_size, dtype)
    before = flat(weights_of_torch(ours.models))
    for _ in range(3):
        ours.step()
        theirs.step()
    left = flat(weights_of_torch(ours.models)) - before
    right = flat(weights_of_paddle(theirs.models)) - before
    assert apart(left, right) < MOVED_BY_ADAM.get(suite, MOVED)
    assert float(theirs.step()) == pytest.approx(ours.step().item(), rel=LOSS[dtype])
