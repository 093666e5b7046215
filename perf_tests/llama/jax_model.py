"""Llama 3 in plain JAX: the model of ``torch_model.py`` as functions of a tree of arrays.

The blocks are stacked along a first axis, over which ``lax.scan`` goes, so that XLA compiles one
of them whatever the depth.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from .recipe import Size

#: A tree of arrays: dicts of dicts.
Tree = Any

_INITIAL_SD = 0.02
_EPSILON = 1e-5


def shapes(size: Size) -> dict[str, Any]:
    """Return the shape of every parameter; matrices take rows from the left, ``x @ matrix``."""
    head = size.width // size.heads
    block = {
        "attention_norm": (size.width,),
        "queries": (size.width, size.heads * head),
        "keys": (size.width, size.kv_heads * head),
        "values": (size.width, size.kv_heads * head),
        "out": (size.heads * head, size.width),
        "feed_forward_norm": (size.width,),
        "gate": (size.width, size.hidden),
        "up": (size.width, size.hidden),
        "down": (size.hidden, size.width),
    }
    return {
        "embedding": (size.vocabulary, size.width),
        "blocks": {name: (size.layers, *shape) for name, shape in block.items()},
        "norm": (size.width,),
        "head": (size.width, size.vocabulary),
    }


def is_norm(path: Any) -> bool:
    """Return whether the parameter at ``path`` of the tree is a norm's, which does not decay."""
    return str(path[-1].key).endswith("norm")


def initial(size: Size, key: jax.Array) -> Tree:
    """Return the parameters, the same however devices will share them."""
    places, form = jax.tree_util.tree_flatten_with_path(
        shapes(size), is_leaf=lambda node: isinstance(node, tuple)
    )
    keys = jax.random.split(key, len(places))
    return jax.tree.unflatten(
        form,
        [
            jnp.ones(shape) if is_norm(path) else _INITIAL_SD * jax.random.normal(each, shape)
            for each, (path, shape) in zip(keys, places, strict=True)
        ],
    )


#: Matrices of a block whose columns, and whose rows, are split by tensor parallelism.
_COLUMNS = ("queries", "keys", "values", "gate", "up")
_ROWS = ("out", "down")


def placements(size: Size, *, shards: bool, splits: bool) -> Tree:
    """Return how every parameter lies on the mesh of ``dp`` and ``tp``.

    ``shards``: each matrix over the replicas; ``splits``: heads, hidden channels and the
    vocabulary over the devices of one.
    """
    dp, tp = "dp" if shards else None, "tp" if splits else None
    block = dict.fromkeys(shapes(size)["blocks"], PartitionSpec())
    block |= dict.fromkeys(_COLUMNS, PartitionSpec(None, dp, tp))
    block |= dict.fromkeys(_ROWS, PartitionSpec(None, tp, dp))
    return {
        # Split by the vocabulary, which fewer numbers of devices divide, XLA gathers the whole
        # table for each lookup and reduces its whole gradient
        "embedding": PartitionSpec(None, dp),
        "blocks": block,
        "norm": PartitionSpec(),
        "head": PartitionSpec(dp, tp),
    }


def norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    """Return RMSNorm of ``x``, computed in float32."""
    wide = x.astype(jnp.float32)
    return wide * lax.rsqrt((wide * wide).mean(-1, keepdims=True) + _EPSILON) * scale


def rotated(x: jax.Array, base: float) -> jax.Array:
    """Return ``x`` with each pair of channels (i, i + half) turned by its position's angle.

    Its shape is batch, tokens, heads, channels.
    """
    tokens, head = x.shape[1], x.shape[3]
    turns = base ** (-jnp.arange(0, head, 2, dtype=jnp.float32) / head)
    angles = jnp.outer(jnp.arange(tokens, dtype=jnp.float32), turns)[:, None, :]
    cosine, sine = jnp.cos(angles).astype(x.dtype), jnp.sin(angles).astype(x.dtype)
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate(
        (first * cosine - second * sine, second * cosine + first * sine), axis=-1
    )


def block(size: Size, x: jax.Array, layer: Tree, dtype: Any) -> jax.Array:
    """Return the output of one block, whose products are computed in ``dtype``."""
    head = size.width // size.heads
    weights = {name: part.astype(dtype) for name, part in layer.items() if part.ndim > 1}
    y = norm(x, layer["attention_norm"]).astype(dtype)
    q, k, v = (
        (y @ weights[name]).reshape(*y.shape[:2], -1, head)
        for name in ("queries", "keys", "values")
    )
    q, k = rotated(q, size.rope_base), rotated(k, size.rope_base)
    mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    x = x + mixed.reshape(*y.shape[:2], -1) @ weights["out"]
    y = norm(x, layer["feed_forward_norm"]).astype(dtype)
    gated = jax.nn.silu(y @ weights["gate"]) * (y @ weights["up"])
    return x + gated @ weights["down"]


def logits(
    size: Size,
    parameters: Tree,
    tokens: jax.Array,
    dtype: Any,
    *,
    recompute: bool = False,
    batch: NamedSharding | None = None,
) -> jax.Array:
    """Return the logits of each next token: batch, tokens, vocabulary; in float32.

    ``recompute``: blocks compute their activations again in the backward pass. ``batch`` says how
    activations are split; None leaves it to XLA.
    """

    def split(x: jax.Array) -> jax.Array:
        return x if batch is None else lax.with_sharding_constraint(x, batch)

    def next_block(x: jax.Array, layer: Tree) -> tuple[jax.Array, None]:
        return split(block(size, x, layer, dtype)), None

    x = split(parameters["embedding"][tokens])
    x, _ = lax.scan(
        jax.checkpoint(next_block) if recompute else next_block, x, parameters["blocks"]
    )
    y = norm(x, parameters["norm"]).astype(dtype)
    return (y @ parameters["head"].astype(dtype)).astype(jnp.float32)


def loss_of(
    size: Size,
    parameters: Tree,
    tokens: jax.Array,
    after: jax.Array,
    dtype: Any,
    *,
    recompute: bool = False,
    batch: NamedSharding | None = None,
) -> jax.Array:
    """Return the mean cross entropy of the tokens ``after`` each of ``tokens``."""
    logs = jax.nn.log_softmax(
        logits(size, parameters, tokens, dtype, recompute=recompute, batch=batch)
    )
    return -jnp.take_along_axis(logs, after[..., None], axis=-1).mean()
