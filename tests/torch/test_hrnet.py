"""HRNet: the model is that of the report's logs, and its tiny size trains on two ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from perf_tests.hrnet.recipe import CLASSES, SIZES
from perf_tests.hrnet.torch_model import HRNet, MultiResolutionModule
from tests.helpers.data_sets import cityscapes
from tests.helpers.losses import assert_losses_fell
from tests.helpers.one_session import run_together
from tests.helpers.real_data import check_read, train
from tests.helpers.user_folder import HERE

pytestmark = pytest.mark.torch
#: One launch: no comparison with one device.
TINY = {
    "workload": "perf_tests.hrnet.torch_train:build",
    "size": "tiny",
    "batch_size_per_device": 2,
    "iterations": 150,
    "warmup": 50,
    "speedup": None,
}


@pytest.fixture(scope="module")
def full() -> HRNet:
    with torch.device("meta"):
        return HRNet(SIZES["full"])


def test_hrnet_w18_has_the_parameters_of_the_reports_logs(full: HRNet):
    """PyTorch's log lists 9,640,849, of them 9,562,260 in the backbone; Paddle's counts 9,675,306.

    Paddle counts running means and variances too, and PaddleSeg's last convolution has no bias.
    """
    parameters = dict(full.named_parameters())
    assert sum(p.numel() for p in parameters.values()) == 9_640_849
    head = sum(p.numel() for name, p in parameters.items() if name.startswith("head."))
    assert head == 9_640_849 - 9_562_260
    running = sum(b.numel() for name, b in full.named_buffers() if "running" in name)
    assert 9_640_849 + running - CLASSES == 9_675_306


def test_hrnet_w18_labels_every_pixel_at_the_cost_that_paddles_log_counts(full: HRNet):
    """37,159,962,624 multiply-adds, normalisation and activations among them."""
    images = torch.zeros(1, 3, 512, 1024, device="meta")
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        assert full(images).shape == (1, 19, 512, 1024)
    assert counter.get_total_flops() / 2 == pytest.approx(37_159_962_624, rel=0.01)


def test_a_module_adds_every_branch_to_every_other():
    module = MultiResolutionModule(1, (4, 8, 16)).eval()
    sides = (16, 8, 4)
    xs = [torch.randn(1, w, s, s) for w, s in zip((4, 8, 16), sides, strict=True)]
    before = module(list(xs))
    assert [tuple(y.shape) for y in before] == [tuple(x.shape) for x in xs]
    for source in range(3):
        changed = [x + (i == source) for i, x in enumerate(xs)]
        after = module(changed)
        assert not any(torch.equal(a, b) for a, b in zip(before, after, strict=True))


# The gate has two ranks in one process (test_planted_in_each_suite.py), and a session on images.
@pytest.mark.nightly
def test_the_tiny_size_trains_on_two_ranks(tmp_path: Path):
    session = run_together(tmp_path, {"net": TINY}, workloads=HERE)
    [run] = session["net"].measurement["runs"]
    assert len(run["ranks"]) == 2
    assert len(run["step_seconds"]) == 150
    assert_losses_fell(run)


def test_the_tiny_size_reads_cityscapes(tmp_path: Path):
    cityscapes(tmp_path / "data" / "hrnet")
    [outcome] = train(tmp_path, tmp_path / "data", "hrnet and torch", "--cpus=1")
    check_read(outcome)
