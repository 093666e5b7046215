"""A program of TensorFlow under Horovod, whose thread polls."""

import sys

import horovod.tensorflow as hvd
import tensorflow as tf
from amount import STEP

from pytest_dlperf.mark import step

hvd.init()
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
model = tf.keras.Sequential([tf.keras.layers.Dense(256) for _ in range(6)])
x = tf.random.normal((64, 256))
model(x)
optimizer = tf.keras.optimizers.SGD(1e-3)


@tf.function
def train():
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x) ** 2)
        for _ in range(STEP):
            loss += 0.0 * tf.reduce_sum(x @ tf.transpose(x))
    tape = hvd.DistributedGradientTape(tape)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


for _ in range(int(sys.argv[1])):
    with step() as marked:
        marked.loss(float(train()))
