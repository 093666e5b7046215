"""HRNet in Paddle: the model is that in PyTorch, and its tiny size trains on two ranks."""

from __future__ import annotations

from pathlib import Path

import paddle
import pytest

from perf_tests.hrnet.paddle_model import HRNet
from perf_tests.hrnet.recipe import CLASSES, SIZES
from tests.helpers.losses import assert_losses_fell
from tests.paddle.conftest import paddle_session

pytestmark = pytest.mark.paddle


def test_hrnet_w18_counted_as_paddle_counts_is_that_of_the_reports_log():
    """The log counts 9,675,306; PaddleSeg's last convolution has no bias."""
    parameters = HRNet(SIZES["full"]).parameters()
    assert sum(int(parameter.size) for parameter in parameters) == 9_675_306 + CLASSES
    # As many as the model in PyTorch, and as its own log lists.
    assert sum(int(p.size) for p in parameters if not p.stop_gradient) == 9_640_849


def test_the_tiny_model_labels_every_pixel():
    model = HRNet(SIZES["tiny"])
    assert model(paddle.zeros([2, 3, 32, 64])).shape == [2, CLASSES, 32, 64]


def test_the_tiny_size_trains_on_two_ranks(tmp_path: Path):
    # One launch: no comparison with one device.
    marker = {
        "workload": "perf_tests.hrnet.paddle_train:build",
        "size": "tiny",
        "batch_size_per_device": 2,
        "iterations": 150,
        "warmup": 50,
        "speedup": None,
    }
    session = paddle_session(tmp_path, {"net": marker})
    [run] = session["net"].measurement["runs"]
    assert len(run["ranks"]) == 2
    assert len(run["step_seconds"]) == 150
    assert_losses_fell(run)
