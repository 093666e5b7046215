"""Llama in Paddle trains as in PyTorch: same weights, same batch, same losses."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
import torch
from paddle.nn import functional as paddle_functional
from torch.nn import functional as F

from perf_tests.llama import paddle_model, paddle_train
from perf_tests.llama.recipe import BETAS, SIZES
from perf_tests.llama.torch_model import Llama, initialize
from perf_tests.llama.torch_train import groups
from tests.helpers.framework_pairs import as_in_paddle, copy_weights

# Both frameworks in one environment, and what it compares changes with the suites alone.
pytestmark = [pytest.mark.agreement, pytest.mark.nightly]
SIZE = SIZES["tiny"]._replace(layers=2)


@pytest.mark.parametrize("recompute", [False, True])
def test_five_steps_of_both_have_the_same_losses_and_end_at_the_same_weights(recompute: bool):
    ours, theirs = Llama(SIZE), paddle_model.Llama(SIZE, recompute=recompute)
    for seed, part in enumerate([ours.embedding, *ours.blocks, ours.norm, ours.head]):
        initialize(part, seed)
    copy_weights(ours, theirs)
    begun = {name: weight.copy() for name, weight in as_in_paddle(ours).items()}
    text = np.random.default_rng(1).integers(SIZE.vocabulary, size=(4, SIZE.sequence + 1))
    tokens, after = text[:, :-1].copy(), text[:, 1:].copy()
    rate = SIZE.learning_rate
    optimizer = torch.optim.AdamW(groups(ours.parameters()), lr=rate, betas=BETAS)
    their_optimizer = paddle_train.adamw(theirs, rate)
    for _ in range(5):
        loss = F.cross_entropy(
            ours(torch.from_numpy(tokens)).flatten(0, 1), torch.from_numpy(after).flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        their_loss = paddle_functional.cross_entropy(
            theirs(paddle.to_tensor(tokens)).flatten(0, 1), paddle.to_tensor(after).flatten()
        )
        their_loss.backward()
        their_optimizer.step()
        their_optimizer.clear_grad()
        assert float(their_loss) == pytest.approx(loss.item(), rel=1e-6)
    ended = as_in_paddle(ours)
    moved = max(np.abs(ended[name] - begun[name]).max() for name in begun)
    apart = {
        name: np.abs(ended[name] - weight.numpy()).max()
        for name, weight in theirs.state_dict().items()
    }
    assert apart.keys() == ended.keys()
    assert max(apart.values()) < 0.01 * moved
