"""One model of Keras 3, trained on JAX by its own trainer, and on PyTorch."""

from __future__ import annotations

import os

import numpy as np


def on_jax(job):
    """Train with ``train_on_batch``, on all devices of the case."""
    os.environ["KERAS_BACKEND"] = "jax"
    import jax
    import keras

    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=jax.devices()))
    model = make_model(keras, job.seed)
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss=make_loss(keras))
    job.replicated(lambda: [one.value for one in model.trainable_variables])
    random = np.random.default_rng(job.rank)
    x = random.standard_normal((job.local_batch_size, 32), np.float32)
    y = random.integers(4, size=job.local_batch_size)
    return lambda: model.train_on_batch(x, y)


def on_torch(job):
    """Train by hand: Keras averages no gradients over PyTorch's ranks, DDP does."""
    os.environ["KERAS_BACKEND"] = "torch"
    import keras
    import torch

    model = job.data_parallel(make_model(keras, job.seed))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_of = make_loss(keras)
    x = torch.randn(job.batch_size_per_device, 32, generator=job.generator())
    y = torch.arange(job.batch_size_per_device) % 4

    def step():
        loss = loss_of(y, model(x))
        job.backward(loss, optimizer)
        return loss

    return step


def make_model(keras, seed):
    """Return the model; ``keras`` is imported after its backend was named."""
    keras.utils.set_random_seed(seed)
    hidden = keras.layers.Dense(64, activation="relu")
    return keras.Sequential([keras.Input((32,)), hidden, keras.layers.Dense(4)])


def make_loss(keras):
    """Return the loss."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
