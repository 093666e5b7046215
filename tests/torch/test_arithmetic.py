"""TFLOP/s and MFU of a transformer, against a count of its operations by hand; float8."""

from __future__ import annotations

import pytest

from pytest_dlperf import transformer_flops
from tests.helpers.one_session import OneSession, run_together
from tests.helpers.user_folder import HERE

pytestmark = pytest.mark.torch

LAYERS, WIDTH, HEADS, TOKENS, WORDS, BATCH = 2, 64, 4, 32, 128, 4
TRAIN = f"""
import torch
from torch import nn
from torch.nn import functional as F

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear({WIDTH}, 3 * {WIDTH}, bias=False)
        self.out = nn.Linear({WIDTH}, {WIDTH}, bias=False)
        self.up = nn.Linear({WIDTH}, 4 * {WIDTH}, bias=False)
        self.down = nn.Linear(4 * {WIDTH}, {WIDTH}, bias=False)

    def forward(self, x):
        batch, tokens, width = x.shape
        parts = self.qkv(x).view(batch, tokens, 3, {HEADS}, width // {HEADS})
        mixed = F.scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4), is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(x)))

def build(job):
    words = nn.Embedding({WORDS}, {WIDTH})
    head = nn.Linear({WIDTH}, {WORDS}, bias=False)
    model = nn.Sequential(words, *(Block() for _ in range({LAYERS})), head)
    model = job.data_parallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    text = torch.randint({WORDS}, (job.batch_size_per_device, {TOKENS}))
    job.work({BATCH} * {TOKENS})

    def step():
        loss = F.cross_entropy(model(text).flatten(0, 1), text.flatten())
        job.backward(loss, optimizer)
        return loss

    return step
"""


def by_hand(*, attention: int) -> int:
    """Return the operations of one iteration of one rank, forward and backward.

    Six for each weight of a matrix and token, and ``attention`` for each query, key and channel
    (PaLM, appendix B).
    """
    weights = LAYERS * 12 * WIDTH**2 + WIDTH * WORDS
    return BATCH * TOKENS * (6 * weights + attention * LAYERS * TOKENS * WIDTH)


#: Four forward and eight backward. Flash attention computes the scores again: two more.
OF_MODEL, EXECUTED = by_hand(attention=12), by_hand(attention=14)


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> OneSession:
    """A transformer on two ranks; and a net in float8, with and without products in it."""
    path = tmp_path_factory.mktemp("arithmetic")
    (path / "train.py").write_text(TRAIN, encoding="utf-8")
    float8 = {"workload": "float8:build", "precision": "fp8", "layout": "1n1c",
              "batch_size_per_device": 16}  # fmt: skip
    tests = {
        "net": {
            "workload": "train:build", "batch_size_per_device": BATCH, "unit": "tokens",
            "iterations": 12, "warmup": 4, "speedup": None, "metrics": {"tflops": None},
        },
        "float8": {**float8, "options": {"float8": True}},
        "imitated": {**float8, "options": {"float8": False}},
    }  # fmt: skip
    # A run that others disturbed counts the same operations
    return run_together(path, tests, workloads=HERE)


def test_a_transformers_operations_are_those_counted_by_hand(counted: OneSession):
    measured = counted["net"].measurement
    [run] = measured["runs"]
    window_s, rate = sum(run["step_seconds"][4:]), measured["throughput"]
    executed = run["extras"]["flop_per_s_per_device"]
    assert executed * window_s / 8 == pytest.approx(EXECUTED, rel=0.01)
    # Both are of the same window: tokens a second times operations a token, over two devices
    per_token = EXECUTED / (BATCH * TOKENS)
    assert run["metrics"]["tflops"]["value"] == pytest.approx(rate * per_token / 2e12, rel=0.01)


def test_the_models_operations_are_those_of_palm(counted: OneSession):
    """MFU is these over the device's peak; what attention computes again is not in them."""
    [run] = counted["net"].measurement["runs"]
    found = run["extras"]["model_flop_per_s_per_device"]
    window_s = sum(run["step_seconds"][4:])
    assert found * window_s / 8 == pytest.approx(OF_MODEL, rel=0.001)
    per_token = transformer_flops(
        LAYERS * 12 * WIDTH**2 + 2 * WIDTH * WORDS, embedding=WIDTH * WORDS, layers=LAYERS,
        attention_width=WIDTH, sequence=TOKENS,
    )  # fmt: skip
    assert per_token * BATCH * TOKENS == OF_MODEL


def test_products_in_float8_are_seen(counted: OneSession):
    measured = counted["float8"].measurement
    assert measured["conditions"]["dtype"] == "float8"
    [run] = measured["runs"]
    assert run["ranks"][0]["loss_last"] < run["ranks"][0]["loss_first"]
    # Of the first layer no gradient of its input is needed; the function of the test makes it
    operations = 3 * 2 * 16 * (32 * 64 + 64 * 16)
    window_s = sum(run["step_seconds"][10:])
    executed = run["extras"]["flop_per_s_per_device"] * window_s / 20
    assert executed == pytest.approx(operations, rel=0.001)


def test_a_model_without_products_in_float8_is_an_error(counted: OneSession):
    counted["imitated"].assert_error(
        "the case names fp8, whose matrix work is in float8; this run did it in bfloat16 100%"
    )
