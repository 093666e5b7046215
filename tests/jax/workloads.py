"""Small trainings in JAX, right and wrong."""

from __future__ import annotations

import os
import signal
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

#: Seconds that the fault ``slow`` adds to a step.
SLOW_S = 0.03


def build(job):
    """Train a small net on one fixed batch; ``fault`` names what is wrong with it.

    The environment's ``EXTRA=yes`` adds a matrix product to it.
    """
    fault = str(job.options.get("fault", ""))
    random = np.random.default_rng(job.rank)
    hidden, out = jax.random.split(jax.random.key(job.seed))
    params = job.data_parallel({
        "hidden": 0.1 * jax.random.normal(hidden, (32, 64)),
        "out": 0.1 * jax.random.normal(out, (64, 4)),
    })  # fmt: skip
    count = job.local_batch_size
    x, y = job.shard((
        random.standard_normal((count, 32), np.float32), random.integers(4, size=count)
    ))  # fmt: skip
    if fault == "half":
        job.precision = "bf16"

    def loss_of(params, x, y):
        x, params = job.cast((x, params))
        with jax.named_scope("hidden"):
            activations = jax.nn.relu(x @ params["hidden"])
        logits = with_extra(activations, x) @ params["out"]
        logits = jax.nn.log_softmax(logits.astype(jnp.float32))
        return -jnp.take_along_axis(logits, y[:, None], axis=1).mean()

    def update(params, x, y):
        loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
        loss = jax.lax.pmean(loss, "dp")
        if fault != "not-averaged":
            gradients = jax.lax.pmean(gradients, "dp")
        return jax.tree.map(lambda p, g: p - 0.5 * g, params, gradients), loss

    whole, part = PartitionSpec(), PartitionSpec("dp")
    train = jax.shard_map(
        update, mesh=job.mesh, in_specs=(whole, part, part), out_specs=whole, check_vma=False
    )
    trained = job.step_of(
        jax.jit(train, donate_argnums=0), params, x, y, parameters=lambda params: params
    )
    if fault == "undeclared":
        job.declared = None
    if fault == "donated":
        job.replicated(lambda: params)
    done = 0

    def step():
        nonlocal done
        done += 1
        if done == 5 and job.rank == job.world_size // job.devices_per_process - 1:
            misbehave(fault)
        if fault == "slow":
            time.sleep(SLOW_S)
        return trained()

    return step


def with_extra(activations, x):
    """Return ``activations``, with an additional product where the environment has ``EXTRA``."""
    if os.environ.get("EXTRA") != "yes":
        return activations
    with jax.named_scope("extra"):
        square = jnp.ones((64, 64), activations.dtype) * x[0, 0]
        return activations + 1e-3 * jnp.tanh(activations @ square)


def misbehave(fault):
    """Do what the fault is named for."""
    if fault == "raises":
        raise ValueError("boom in step")
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "sleeps":
        time.sleep(3600)


SIDE = 256


def asynchronous(job):
    """Return a step that queues work, and returns before it is done, with a loss of the host.

    Nothing reads the result. Each step reports whether the work of the step before was still
    being done when it began, and whether its own was when it returned.
    """
    work = jax.jit(lambda one: jax.lax.fori_loop(0, 60, lambda _, each: each @ each, one))
    held = [job.data_parallel(jnp.eye(SIDE))]
    job.replicated(lambda: held[0])
    done = 0

    def step():
        nonlocal done
        done += 1
        job.metric("still_working", float(not held[0].is_ready()), better="lower")
        held[0] = work(held[0])
        job.metric("returned_early", float(not held[0].is_ready()), better="lower")
        return 1.0 / done

    return step
