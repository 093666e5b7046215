"""Trains Llama in JAX: copies on each device, sharded over them, tensor parallel, or the last two.

One program is compiled for all devices. How the parameters lie on them is said by their shardings
alone, and XLA puts the collectives in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from .jax_model import Tree, initial, is_norm, loss_of, placements
from .recipe import BETAS, SIZES, WEIGHT_DECAY, Size

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_dlperf.worker.frameworks.jax.job import JaxJob

#: What PyTorch's AdamW adds to a root.
_EPSILON = 1e-8


def adamw(state: Tree, gradients: Tree, rate: float) -> Tree:
    """Return the state after one step of AdamW: parameters, two moments, number of steps."""
    done = state["done"] + 1
    first, second = BETAS

    def decayed(path: Any, parameter: jax.Array, mean: jax.Array, square: jax.Array) -> jax.Array:
        kept = parameter if is_norm(path) else parameter * (1 - rate * WEIGHT_DECAY)
        root = jnp.sqrt(square / (1 - second**done)) + _EPSILON
        return kept - rate * (mean / (1 - first**done)) / root

    means = jax.tree.map(lambda m, g: first * m + (1 - first) * g, state["means"], gradients)
    squares = jax.tree.map(
        lambda s, g: second * s + (1 - second) * g * g, state["squares"], gradients
    )
    parameters = jax.tree_util.tree_map_with_path(decayed, state["parameters"], means, squares)
    return {"parameters": parameters, "means": means, "squares": squares, "done": done}


def text_of(job: JaxJob, size: Size) -> tuple[jax.Array, jax.Array]:
    """Return tokens and those after them: one batch, the same on all ranks of a replica."""
    shape = (job.local_batch_size, size.sequence + 1)
    tokens = jax.random.randint(job.generator(), shape, 0, size.vocabulary)
    return job.shard(tokens[:, :-1]), job.shard(tokens[:, 1:])


def build(job: JaxJob) -> Callable[[], jax.Array]:
    """Return one training iteration.

    Options: ``model`` (8b, 350m), ``recompute`` (activations, in backward).
    """
    parallel = job.parallel
    if parallel.data not in {"", "ddp", "fsdp2"} or parallel.split > parallel.tp:
        raise ValueError("this suite is parallel by ddp, fsdp2, tpN, or fsdp2-tpN")
    size = SIZES["tiny" if job.size == "tiny" else str(job.options["model"])]
    recompute = bool(job.options.get("recompute"))
    parts = placements(size, shards=parallel.data == "fsdp2", splits=parallel.tp > 1)
    placed = jax.tree.map(
        lambda part: NamedSharding(job.mesh, part),
        parts,
        is_leaf=lambda node: isinstance(node, PartitionSpec),
    )
    whole = NamedSharding(job.mesh, PartitionSpec())
    # Else XLA splits activations as the parameters are, and each device has the whole batch
    batch = NamedSharding(job.mesh, PartitionSpec("dp"))
    shardings = {"parameters": placed, "means": placed, "squares": placed, "done": whole}

    def first_state(key: jax.Array) -> Tree:
        parameters = initial(size, key)
        zeros = jax.tree.map(jnp.zeros_like, parameters)
        return {
            "parameters": parameters,
            "means": zeros,
            "squares": jax.tree.map(jnp.zeros_like, parameters),
            "done": jnp.zeros((), jnp.int32),
        }

    def train(state: Tree, tokens: jax.Array, after: jax.Array) -> tuple[Tree, jax.Array]:
        loss, gradients = jax.value_and_grad(
            lambda parameters: loss_of(
                size,
                parameters,
                tokens,
                after,
                job.compute_dtype,
                recompute=recompute,
                batch=batch,
            )
        )(state["parameters"])
        return adamw(state, gradients, size.learning_rate), loss

    # Made where they belong, so that no device ever holds more than its shards
    state = jax.jit(first_state, out_shardings=shardings)(jax.random.key(job.seed))
    tokens, after = text_of(job, size)
    job.work(job.batch_size_per_device * size.sequence)
    return job.step_of(
        jax.jit(train, donate_argnums=0, out_shardings=(shardings, whole)),
        state,
        tokens,
        after,
        parameters=lambda state: state["parameters"],
    )
