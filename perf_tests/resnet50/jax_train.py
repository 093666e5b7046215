"""ResNet-50 V1.5 in plain JAX, trained as NVIDIA's container trains it.

Parameters are trees of arrays. Each device normalises over its own batch and averages gradients
with the others by ``lax.pmean``, as data parallelism does in the other frameworks.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from .recipe import (
    DEPTHS,
    LABEL_SMOOTHING,
    MOMENTUM,
    SIZES,
    WEIGHT_DECAY,
    Size,
    learning_rate,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_dlperf.worker.frameworks.jax.job import JaxJob

#: A tree of arrays: dicts, lists, arrays.
Tree = Any

_EPSILON = 1e-5
#: Share of the old running statistics that is kept in a step.
_KEPT = 0.9


class Keys:
    """Gives a new key for each parameter."""

    def __init__(self, key: jax.Array) -> None:
        self._key = key

    def __call__(self) -> jax.Array:
        """Return the next key."""
        self._key, given = jax.random.split(self._key)
        return given


def conv_bn(keys: Keys, inputs: int, outputs: int, kernel: int) -> tuple[Tree, Tree]:
    """Return parameters of a convolution and its batch normalisation, and running statistics."""
    fan_out = kernel * kernel * outputs
    normal = jax.random.normal(keys(), (kernel, kernel, inputs, outputs))
    parameters = {
        "kernel": normal * (2 / fan_out) ** 0.5,
        "scale": jnp.ones(outputs),
        "bias": jnp.zeros(outputs),
    }
    return parameters, {"mean": jnp.zeros(outputs), "variance": jnp.ones(outputs)}


def initial(size: Size, key: jax.Array) -> tuple[Tree, Tree]:
    """Return the parameters, and the running statistics of batch normalisation."""
    keys = Keys(key)
    layers = {"stem": conv_bn(keys, 3, size.width, 7)}
    inputs = size.width
    for stage, depth in enumerate(size.depths):
        for index in range(depth):
            width, name = size.width << stage, f"{stage}.{index}"
            layers[f"{name}.reduce"] = conv_bn(keys, inputs, width, 1)
            layers[f"{name}.spatial"] = conv_bn(keys, width, width, 3)
            layers[f"{name}.expand"] = conv_bn(keys, width, 4 * width, 1)
            if stride_of(stage, index) != 1 or inputs != 4 * width:
                layers[f"{name}.shortcut"] = conv_bn(keys, inputs, 4 * width, 1)
            inputs = 4 * width
    bound = inputs**-0.5
    weights = jax.random.uniform(keys(), (inputs, size.classes), minval=-bound, maxval=bound)
    parameters = {name: layer for name, (layer, _) in layers.items()}
    parameters["classifier"] = {"weights": weights, "offset": jnp.zeros(size.classes)}
    return parameters, {name: statistics for name, (_, statistics) in layers.items()}


def stride_of(stage: int, index: int) -> int:
    """Return the stride of a bottleneck: the first of each later stage halves the image."""
    return 2 if stage > 0 and index == 0 else 1


class Model:
    """One forward pass; ``statistics`` become those after it."""

    def __init__(self, parameters: Tree, statistics: Tree) -> None:
        self.parameters, self.statistics = parameters, dict(statistics)

    def layer(self, name: str, x: jax.Array, stride: int = 1) -> jax.Array:
        """Return convolution and batch normalisation of ``x``, whose statistics are float32."""
        layer = self.parameters[name]
        kernel = layer["kernel"].astype(x.dtype)
        pad = kernel.shape[0] // 2
        x = lax.conv_general_dilated(
            x,
            kernel,
            (stride, stride),
            ((pad, pad), (pad, pad)),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        wide = x.astype(jnp.float32)
        mean, variance = wide.mean((0, 1, 2)), wide.var((0, 1, 2))
        old = self.statistics[name]
        self.statistics[name] = {
            "mean": _KEPT * old["mean"] + (1 - _KEPT) * lax.stop_gradient(mean),
            "variance": _KEPT * old["variance"] + (1 - _KEPT) * lax.stop_gradient(variance),
        }
        factor = layer["scale"] * lax.rsqrt(variance + _EPSILON)
        return ((wide - mean) * factor + layer["bias"]).astype(x.dtype)

    def bottleneck(self, name: str, x: jax.Array, stride: int) -> jax.Array:
        """Return 1x1, 3x3 and 1x1 convolutions around a shortcut; the stride is in the 3x3."""
        y = jax.nn.relu(self.layer(f"{name}.reduce", x))
        y = jax.nn.relu(self.layer(f"{name}.spatial", y, stride))
        y = self.layer(f"{name}.expand", y)
        if f"{name}.shortcut" in self.parameters:
            x = self.layer(f"{name}.shortcut", x, stride)
        return jax.nn.relu(x + y)

    def logits(self, images: jax.Array, depths: tuple[int, ...] = DEPTHS) -> jax.Array:
        """Return the logits of ``images``, in float32."""
        x = jax.nn.relu(self.layer("stem", images, 2))
        around = ((0, 0), (1, 1), (1, 1), (0, 0))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), around)
        for stage, depth in enumerate(depths):
            for index in range(depth):
                x = self.bottleneck(f"{stage}.{index}", x, stride_of(stage, index))
        classifier = self.parameters["classifier"]
        logits = x.mean((1, 2)) @ classifier["weights"].astype(x.dtype)
        return logits.astype(jnp.float32) + classifier["offset"]


def cross_entropy(logits: jax.Array, labels: jax.Array, classes: int) -> jax.Array:
    """Return the mean loss with label smoothing."""
    targets = jax.nn.one_hot(labels, classes) * (1 - LABEL_SMOOTHING) + LABEL_SMOOTHING / classes
    return -(targets * jax.nn.log_softmax(logits)).sum(1).mean()


def updated(
    parameters: Tree, momenta: Tree, gradients: Tree, rate: jax.Array
) -> tuple[Tree, Tree]:
    """Return parameters and momenta after SGD; batch normalisation does not decay."""

    def momentum(path: Any, parameter: jax.Array, old: jax.Array, gradient: jax.Array) -> Any:
        decay = 0.0 if path[-1].key in {"scale", "bias"} else WEIGHT_DECAY
        return MOMENTUM * old + gradient + decay * parameter

    momenta = jax.tree_util.tree_map_with_path(momentum, parameters, momenta, gradients)
    return jax.tree.map(lambda p, m: p - rate * m, parameters, momenta), momenta


def feed(job: JaxJob, size: Size) -> Iterator[tuple[jax.Array, jax.Array]]:
    """Return one and the same batch for ever, as the loss must fall."""
    images, labels = jax.random.split(job.generator())
    batch = job.local_batch_size
    return itertools.repeat(
        job.shard((
            jax.random.normal(images, (batch, size.image, size.image, 3), job.compute_dtype),
            jax.random.randint(labels, (batch,), 0, size.classes),
        ))
    )  # fmt: skip


def build(job: JaxJob) -> Callable[[], jax.Array]:
    """Return one training iteration."""
    size = SIZES[job.size]
    parameters, statistics = job.data_parallel(initial(size, jax.random.key(job.seed)))
    state = parameters, statistics, jax.tree.map(jnp.zeros_like, parameters)
    batches = feed(job, size)

    def update(
        state: Tree, rate: jax.Array, images: jax.Array, labels: jax.Array
    ) -> tuple[Tree, jax.Array]:
        parameters, statistics, momenta = state

        def loss_of(parameters: Tree) -> tuple[jax.Array, Tree]:
            model = Model(parameters, statistics)
            logits = model.logits(images, size.depths)
            return cross_entropy(logits, labels, size.classes), model.statistics

        (loss, after), gradients = jax.value_and_grad(loss_of, has_aux=True)(parameters)
        loss, after, gradients = lax.pmean((loss, after, gradients), "dp")
        parameters, momenta = updated(parameters, momenta, gradients, rate)
        return (parameters, after, momenta), loss

    whole, part = PartitionSpec(), PartitionSpec("dp")
    # Without the check of what varies over devices, gradients stay those of the device until pmean
    mapped = jax.shard_map(
        update,
        mesh=job.mesh,
        in_specs=(whole, whole, part, part),
        out_specs=whole,
        check_vma=False,
    )
    compiled = jax.jit(mapped, donate_argnums=0)
    global_batch, iteration = job.batch_size_per_device * job.world_size, 0

    def train(state: Tree) -> tuple[Tree, jax.Array]:
        nonlocal iteration
        iteration += 1
        rate = jnp.float32(learning_rate(size, global_batch, iteration))
        after: tuple[Tree, jax.Array] = compiled(state, rate, *next(batches))
        return after

    return job.step_of(train, state, parameters=lambda state: state[0])
