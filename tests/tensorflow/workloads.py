"""Small trainings in TensorFlow, right and wrong, for tests of what a rank checks."""

from __future__ import annotations

import os
import signal
import time

import tensorflow as tf


def build(job):
    """Train a small net on one fixed batch; ``fault`` names what is wrong with it.

    The environment's ``EXTRA=yes`` adds a matrix product to it.
    """
    fault = str(job.options.get("fault", ""))
    model = tf.keras.Sequential(
        [tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(4, dtype="float32")]
    )
    model.build((job.batch_size_per_device, 32))
    if fault == "undeclared":
        job.data_parallel = lambda module: module
    model = job.data_parallel(model)
    variables = model.trainable_variables
    optimizer = job.optimizer(tf.keras.optimizers.SGD(0.1))
    if fault == "not-averaged":
        import horovod.tensorflow as hvd

        # It averages in its own minimize() alone: after a tape of one's own, never.
        optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.legacy.SGD(0.1))
    random = job.generator()
    x = random.normal((job.batch_size_per_device, 32))
    y = random.uniform((job.batch_size_per_device,), maxval=4, dtype=tf.int32)
    done = 0

    @tf.function
    def train():
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, with_extra(model(x), x))
            loss = tf.reduce_mean(losses)
        if fault == "not-averaged":
            optimizer.apply_gradients(
                zip(tape.gradient(loss, variables), variables, strict=True),
                experimental_aggregate_gradients=False,
            )
        else:
            job.backward(loss, optimizer, tape=tape, parameters=variables)
        return loss

    def step():
        nonlocal done
        done += 1
        if done == 5:
            misbehave(fault, job)
        return train()

    return step


def with_extra(logits, x):
    """Return ``logits``, with an additional product where the environment has ``EXTRA``."""
    if os.environ.get("EXTRA") != "yes":
        return logits
    with tf.name_scope("extra"):
        square = tf.matmul(x, x, transpose_b=True)
        return logits + 1e-6 * tf.reduce_mean(square)


def misbehave(fault, job):
    """Do what the fault is named for, in the last of several ranks."""
    if job.rank != job.world_size - 1 or job.world_size == 1:
        return
    if fault == "raises":
        raise ValueError("boom in step")
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "sleeps":
        time.sleep(3600)
