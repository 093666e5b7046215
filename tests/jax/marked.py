"""A user's own program in JAX: one process whose devices share a batch, with marked steps."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from pytest_dlperf import mark

mesh = Mesh(np.array(jax.devices()), ("dp",))
x = jax.device_put(jnp.ones((8 * mesh.size, 256)), NamedSharding(mesh, PartitionSpec("dp")))
weights = jax.device_put(0.01 * jnp.eye(256), NamedSharding(mesh, PartitionSpec()))


@jax.jit
def train(weights, x):
    """Return the next weights and the loss, after work that takes a while."""

    def loss_of(weights):
        return ((x @ weights - 1) ** 2).mean()

    loss, gradient = jax.value_and_grad(loss_of)(weights)
    busy = jax.lax.fori_loop(0, 40, lambda _, one: one @ one, jnp.eye(256))
    return weights - 0.1 * gradient + 0 * busy, loss


for _ in range(30):
    mark.metric("still_working", float(not weights.is_ready()), better="lower")
    with mark.step() as step:
        weights, loss = train(weights, x)
        step.loss(loss)
