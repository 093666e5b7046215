"""A program of JAX."""

import sys

import jax
import jax.numpy as jnp
from amount import STEP

from pytest_dlperf.mark import step

keys = jax.random.split(jax.random.key(0), 7)
weights = [jax.random.normal(key, (256, 256)) / 16 for key in keys[:6]]
x = jax.random.normal(keys[6], (64, 256))


@jax.jit
def update(weights, x):
    def loss_of(weights):
        hidden = x
        for weight in weights:
            hidden = hidden @ weight
        return jnp.mean(hidden**2)

    extra = jax.lax.fori_loop(0, STEP, lambda i, y: (x + y[0, 0]) @ x.T, x @ x.T)
    loss, gradients = jax.value_and_grad(loss_of)(weights)
    return loss + 0.0 * extra.sum(), [
        w - 1e-3 * g for w, g in zip(weights, gradients, strict=True)
    ]


for _ in range(int(sys.argv[1])):
    with step() as marked:
        loss, weights = update(weights, x)
        marked.loss(loss)
