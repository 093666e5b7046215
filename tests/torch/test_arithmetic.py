"""TFLOP/s of a transformer, against a count of its operations by hand."""

from __future__ import annotations

import pytest

from tests.helpers.user_folder import Folder

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


def by_hand() -> int:
    """Return the operations of one iteration of one rank, forward and backward.

    Six for each weight of a matrix and token (PaLM, appendix B). Attention takes 4 for each query,
    key and channel, and 10 backward, since flash attention computes the scores again.
    """
    weights = LAYERS * 12 * WIDTH**2 + WIDTH * WORDS
    attention = 14 * LAYERS * TOKENS * WIDTH
    return BATCH * TOKENS * (6 * weights + attention)


def test_a_transformers_operations_are_those_counted_by_hand(folder: Folder):
    folder.write(
        "train:build", suite="net", layout="1n2c", batch_size_per_device=BATCH, unit="tokens",
        iterations=12, warmup=4, runs=1, max_runs=1, speedup=None, metrics={"tflops": None},
    )  # fmt: skip
    (folder.path / "train.py").write_text(TRAIN, encoding="utf-8")
    # A run that others disturbed counts the same operations
    _, (outcome,) = folder.run("-p", "tests.helpers.no_repeats")
    [run] = outcome["measurement"]["runs"]
    window_s = sum(run["step_seconds"][4:])
    counted = run["extras"]["flop_per_s_per_device"] * window_s / 8
    assert counted == pytest.approx(by_hand(), rel=0.01)
    # Both are of the same window: tokens a second times operations a token, over two devices
    rate = outcome["measurement"]["throughput"]
    per_token = by_hand() / (BATCH * TOKENS)
    assert run["metrics"]["tflops"]["value"] == pytest.approx(rate * per_token / 2e12, rel=0.01)
