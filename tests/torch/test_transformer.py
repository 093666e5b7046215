"""Transformer at tiny size on two ranks, and the number of parameters of the full one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from perf_tests.transformer.recipe import SIZES, parameter_count
from perf_tests.transformer.torch_model import Transformer
from tests.helpers.losses import assert_losses_fell
from tests.helpers.suites import train_suites

pytestmark = pytest.mark.torch


def test_two_ranks_train(tmp_path: Path):
    which = "transformer and torch and fp32 and 1n2c"
    done, [outcome] = train_suites(tmp_path, which, "--cpus=2")
    assert outcome["measurement"] is not None, done.stdout
    [run] = outcome["measurement"]["runs"]
    assert len(run["ranks"]) == 2
    assert_losses_fell(run)
    assert outcome["measurement"]["conditions"]["parameter_count"] == parameter_count(
        SIZES["tiny"]
    )


def test_the_full_model_has_the_parameters_of_the_report():
    with torch.device("meta"):
        model = Transformer(SIZES["full"])
    found = sum(parameter.numel() for parameter in model.parameters())
    assert found == parameter_count(SIZES["full"]) == 210_808_832
