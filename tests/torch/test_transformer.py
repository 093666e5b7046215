"""Transformer is the model of the reports, and its work is what the reports count."""

from __future__ import annotations

import pytest
import torch

from perf_tests.transformer import torch_train
from perf_tests.transformer.recipe import SIZES, learning_rate, parameter_count, sentences
from perf_tests.transformer.torch_model import Attention, Transformer
from pytest_dlperf.worker.frameworks.torch.job import TorchJob

pytestmark = pytest.mark.torch


def test_the_full_model_has_the_parameters_of_the_report():
    with torch.device("meta"):
        model = Transformer(SIZES["full"])
    found = sum(parameter.numel() for parameter in model.parameters())
    # The log transformer_pytorch_bs5120_fp32_gpu1 of the report prints it.
    assert found == parameter_count(SIZES["full"]) == 210_808_832


def test_an_iteration_does_the_tokens_of_the_batch():
    job = TorchJob(
        rank=0, local_rank=0, world_size=1, device=torch.device("cpu"), precision="fp32",
        batch_size_per_device=64, size="tiny", seed=0, dtype=torch.float32,
    )  # fmt: skip
    step = torch_train.build(job)
    assert job.iteration_work == 64
    first = [step().item() for _ in range(12)]
    assert first[-1] < first[0]


def test_a_batch_that_cuts_a_sentence_is_refused():
    assert sentences(SIZES["full"], 5120) == 160
    with pytest.raises(ValueError, match="a multiple of 32, not 5000"):
        sentences(SIZES["full"], 5000)


def test_the_decoder_sees_no_later_token():
    torch.manual_seed(0)
    size = SIZES["tiny"]
    model = Transformer(size).eval()
    source = torch.zeros(size.length, dtype=torch.long)
    before = torch.arange(size.length)
    changed = before.clone()
    changed[5] = 40
    same = torch.isclose(model(source, before), model(source, changed), atol=1e-6).all(dim=1)
    assert same.tolist() == [True] * 5 + [False] * 3
    assert not Attention(size).causal


def test_the_learning_rate_rises_and_falls_as_the_inverse_square_root():
    size = SIZES["full"]
    assert learning_rate(size, 2000) == pytest.approx(size.learning_rate / 2)
    assert learning_rate(size, 4000) == size.learning_rate
    assert learning_rate(size, 16000) == pytest.approx(size.learning_rate / 2)
