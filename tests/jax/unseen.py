"""Trainings in JAX whose products say their own precision, or are where nobody can look."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

WIDTH, OUT = 16, 8


def build(job):
    """Fit one matrix; option ``product`` says how it multiplies."""
    product = str(job.options["product"])
    weights = 0.1 * jax.random.normal(jax.random.key(job.seed), (WIDTH, OUT))
    count = job.local_batch_size
    x, y = (jax.random.normal(jax.random.key(k), (count, n)) for k, n in ((1, WIDTH), (2, OUT)))

    def multiplied(x, weights):
        if product == "default":
            return jnp.matmul(x, weights, precision=lax.Precision.DEFAULT)
        if product == "groups":
            sizes = jnp.array([count - 2, 2])
            return lax.ragged_dot(x, jnp.stack([weights, weights]), sizes)
        if product == "while":
            # As often as a value says, which is nobody's to know
            turn = lax.while_loop(lambda a: a.max() > 1e9, lambda a: a @ a.T @ a, x)
            return lax.stop_gradient(0 * turn) @ weights + x @ weights
        return x @ weights

    def train(weights, x, y):
        loss, gradients = jax.value_and_grad(lambda w: jnp.square(multiplied(x, w) - y).mean())(
            weights
        )
        return weights - 0.5 * gradients, loss

    compiled = jax.jit(train)

    def in_context(*given):
        with jax.default_matmul_precision("bfloat16"):
            return compiled(*given)

    step = in_context if product == "context" else compiled
    state, batch = job.data_parallel(weights), job.shard((x, y))
    return job.step_of(step, state, *batch, parameters=lambda weights: weights)
