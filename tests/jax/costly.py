"""A small training in JAX, with a fault where the option ``planted`` names one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

WIDTH, BLOCKS, TOKENS = 64, 3, 32
PARAMETERS = BLOCKS * 2 * WIDTH * 4 * WIDTH + WIDTH


def initial(key: Any, width: int = WIDTH) -> Any:
    shapes = [(width, 4 * width), (4 * width, width)] * BLOCKS + [(width, 1)]
    keys = jax.random.split(key, len(shapes))
    return [0.02 * jax.random.normal(k, s) for k, s in zip(keys, shapes, strict=True)]


def block(x: Any, up: Any, down: Any, planted: str) -> Any:
    with jax.named_scope("up"):
        hidden = jax.nn.gelu(x @ up)
        if planted == "product":
            # Of other numbers: equal products are one to XLA
            hidden += jax.lax.stop_gradient(jnp.flip(x, 1)) @ jax.lax.stop_gradient(up)
        if planted == "activations":
            # Which the backward pass needs, too
            hidden = jnp.sin(hidden)
        if planted == "callback":
            jax.debug.callback(print, hidden)
    with jax.named_scope("down"):
        if planted == "float32":
            return x + (hidden.astype(jnp.float32) @ down.astype(jnp.float32)).astype(x.dtype)
        return x + hidden @ down


def loss_of(parameters: Any, x: Any, job: Any) -> Any:
    cast = job.cast(parameters)
    planted = str(job.options.get("planted", ""))
    for index in range(BLOCKS):
        with jax.named_scope(f"blocks.{index}"):
            pair = cast[2 * index : 2 * index + 2]
            x = block(x, *pair, planted if index == 1 else "")
    with jax.named_scope("head"):
        return ((x @ cast[-1]).astype(jnp.float32) ** 2).mean()


def build(job: Any) -> Callable[[], Any]:
    parameters = job.data_parallel(initial(jax.random.key(job.seed)))
    rows = job.local_batch_size
    x = job.shard(jax.random.normal(job.generator(), (rows, TOKENS, WIDTH), job.compute_dtype))

    @jax.jit
    def train(parameters: Any, x: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(parameters, x, job)
        return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients), loss

    step = job.step_of(train, parameters, x, parameters=lambda state: state)

    def asking() -> Any:
        loss = step()
        return loss if float(loss) < 1e9 else step()

    def waiting() -> Any:
        return jax.block_until_ready(step())

    def waiting_itself() -> Any:
        return step().block_until_ready()

    def getting() -> Any:
        return jax.device_get(step())

    planted = str(job.options.get("planted", ""))
    waits = {"item": asking, "wait": waiting, "wait itself": waiting_itself, "get": getting}
    return waits.get(planted, step)


def build_in_parts(job: Any) -> Callable[[], Any]:
    """The update is a program of its own, whose results nobody returns."""
    state = {"p": job.data_parallel(initial(jax.random.key(job.seed)))}
    state["m"] = jax.tree.map(jnp.zeros_like, state["p"])
    rows = job.local_batch_size
    x = job.shard(jax.random.normal(job.generator(), (rows, TOKENS, WIDTH), job.compute_dtype))
    gradient = jax.jit(jax.value_and_grad(lambda p, x: loss_of(p, x, job)))
    average = jax.jit(lambda m, g: jax.tree.map(lambda m, g: 0.9 * m + g, m, g))
    update = jax.jit(lambda p, m: jax.tree.map(lambda p, m: p - 0.1 * m, p, m))

    def step() -> Any:
        loss, gradients = gradient(state["p"], x)
        state["m"] = average(state["m"], gradients)
        state["p"] = update(state["p"], state["m"])
        return loss

    job.replicated(lambda: state["p"])
    return step


def build_large(job: Any) -> Callable[[], Any]:
    """Of 100 GB of parameters, of which no array is made."""
    width = 65536
    parameters = job.data_parallel(initial(jax.random.key(0), width)[:2])
    x = job.shard(jnp.zeros((job.local_batch_size, width)))

    @jax.jit
    def train(parameters: Any, x: Any) -> Any:
        loss, gradients = jax.value_and_grad(lambda p, x: ((x @ p[0]) @ p[1]).mean())(
            parameters, x
        )
        return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients), loss

    return job.step_of(train, parameters, x, parameters=lambda state: state)


def build_unknown_rounds(job: Any) -> Callable[[], Any]:
    """A loop goes around as often as values say."""
    weights = jnp.ones((WIDTH, WIDTH))

    @jax.jit
    def train(weights: Any) -> Any:
        done = jax.lax.while_loop(lambda w: w.sum() < 1e9, lambda w: w @ w, weights)
        return done, done.sum()

    return job.step_of(train, weights, parameters=lambda state: state)
