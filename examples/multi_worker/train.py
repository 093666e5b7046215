"""A program of TensorFlow's own multi-worker strategy, without Horovod: see the word ``mark``."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

from pytest_dlperf import mark

BATCH = 8
# Takes the addresses of all workers from TF_CONFIG, which launcher="tf-multiworker" sets
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    tf.keras.utils.set_random_seed(0)
    layers = [tf.keras.Input((32,)), tf.keras.layers.Dense(64, "relu"), tf.keras.layers.Dense(4)]
    model = tf.keras.Sequential(layers)
    optimizer = tf.keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")


@tf.function
def train(x, y):
    """Return the mean loss over all workers."""

    def of_this_worker(x, y):
        with tf.GradientTape() as tape:
            losses = loss_of(y, model(x))
            loss = tf.reduce_sum(losses) / (BATCH * strategy.num_replicas_in_sync)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return strategy.reduce("SUM", strategy.run(of_this_worker, (x, y)), axis=None)


x = tf.constant(np.random.default_rng(0).standard_normal((BATCH, 32)), tf.float32)
y = tf.constant(np.arange(BATCH) % 4)
for _ in range(int(sys.argv[1])):
    with mark.step(work=BATCH) as step:
        step.loss(float(train(x, y)))
print(f"{tf.__version__}: {strategy.num_replicas_in_sync} replicas", flush=True)
