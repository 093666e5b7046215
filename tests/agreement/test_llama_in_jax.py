"""Llama in JAX trains as the one in PyTorch does: same weights, same batch, same numbers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn import functional as F

from perf_tests.llama import jax_model, jax_train
from perf_tests.llama.recipe import BETAS, SIZES
from perf_tests.llama.torch_model import Llama, initialize
from perf_tests.llama.torch_train import groups

# Both frameworks in one environment, and what it compares changes with the suites alone.
pytestmark = [pytest.mark.agreement, pytest.mark.nightly]
SIZE = SIZES["tiny"]._replace(layers=2)


def as_in_jax(model: Llama) -> Any:
    """Return the weights of PyTorch's model as the tree of JAX's."""

    def array(weight: torch.Tensor) -> np.ndarray:
        return weight.detach().numpy().T.copy()

    def stacked(part: str, names: tuple[str, ...]) -> dict[str, np.ndarray]:
        return {
            name: np.stack([array(getattr(getattr(b, part), name).weight) for b in model.blocks])
            for name in names
        }

    norms = ("attention_norm", "feed_forward_norm")
    return {
        "embedding": array(model.embedding.weight).T,
        "blocks": {
            **{n: np.stack([array(getattr(b, n).weight) for b in model.blocks]) for n in norms},
            **stacked("attention", ("queries", "keys", "values", "out")),
            **stacked("feed_forward", ("gate", "up", "down")),
        },
        "norm": array(model.norm.weight),
        "head": array(model.head.weight),
    }


def test_five_steps_of_both_have_the_same_losses_and_end_at_the_same_weights():
    model = Llama(SIZE)
    for seed, part in enumerate([model.embedding, *model.blocks, model.norm, model.head]):
        initialize(part, seed)
    parameters = jax.tree.map(jnp.asarray, as_in_jax(model))
    begun = as_in_jax(model)
    zeros = jax.tree.map(jnp.zeros_like, parameters)
    state = {
        "parameters": parameters, "means": zeros, "squares": zeros,
        "done": jnp.zeros((), jnp.int32),
    }  # fmt: skip
    text = torch.randint(
        SIZE.vocabulary, (4, SIZE.sequence + 1), generator=torch.Generator().manual_seed(1)
    )
    tokens, after = text[:, :-1], text[:, 1:]
    optimizer = torch.optim.AdamW(groups(model.parameters()), lr=SIZE.learning_rate, betas=BETAS)

    @jax.jit
    def train(state, tokens, after):
        loss, gradients = jax.value_and_grad(
            lambda given: jax_model.loss_of(SIZE, given, tokens, after, jnp.float32)
        )(state["parameters"])
        return jax_train.adamw(state, gradients, SIZE.learning_rate), loss

    for _ in range(5):
        loss = F.cross_entropy(model(tokens).flatten(0, 1), after.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        state, theirs = train(state, tokens.numpy(), after.numpy())
        assert float(theirs) == pytest.approx(loss.item(), rel=1e-6)
    ended = as_in_jax(model)
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), begun, ended)
    apart = jax.tree.map(lambda a, b: np.abs(a - np.asarray(b)).max(), ended, state["parameters"])
    assert max(jax.tree.leaves(apart)) < 0.01 * max(jax.tree.leaves(moved))
