"""ResNet-50 V1.5 in TensorFlow, trained as NVIDIA's container trains it, under Horovod.

Of the workload options, ``xla`` compiles forward and backward pass with XLA, the averaging of
gradients staying outside; ``inter_op_parallelism_threads`` is read by the worker.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from .recipe import (
    LABEL_SMOOTHING,
    MOMENTUM,
    SIZES,
    WEIGHT_DECAY,
    Size,
    learning_rate,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_dlperf.worker.frameworks.tensorflow.job import TensorflowJob


def conv_bn(x: Any, outputs: int, kernel: int, stride: int = 1) -> Any:
    """Return convolution and batch normalisation of ``x``."""
    x = tf.keras.layers.Conv2D(
        outputs,
        kernel,
        stride,
        padding="same",
        use_bias=False,
        kernel_initializer=tf.keras.initializers.VarianceScaling(
            2.0, "fan_out", "untruncated_normal"
        ),
    )(x)
    return tf.keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)


def bottleneck(x: Any, width: int, stride: int) -> Any:
    """Return 1x1, 3x3 and 1x1 convolutions around a shortcut; the stride is in the 3x3."""
    outputs = 4 * width
    y = tf.nn.relu(conv_bn(x, width, 1))
    y = tf.nn.relu(conv_bn(y, width, 3, stride))
    y = conv_bn(y, outputs, 1)
    if stride != 1 or x.shape[-1] != outputs:
        x = conv_bn(x, outputs, 1, stride)
    return tf.nn.relu(x + y)


def resnet50(size: Size, batch: int) -> tf.keras.Model:
    """Return stages of ``size.depths`` bottlenecks; channels last."""
    images = tf.keras.Input((size.image, size.image, 3), batch_size=batch)
    x = tf.nn.relu(conv_bn(images, size.width, 7, stride=2))
    x = tf.keras.layers.MaxPool2D(3, 2, padding="same")(x)
    for stage, depth in enumerate(size.depths):
        for index in range(depth):
            x = bottleneck(x, size.width << stage, 2 if stage > 0 and index == 0 else 1)
    x = tf.keras.layers.GlobalAveragePooling2D()(x)
    uniform = tf.keras.initializers.VarianceScaling(1 / 3, "fan_in", "uniform")
    logits = tf.keras.layers.Dense(size.classes, kernel_initializer=uniform)(x)
    return tf.keras.Model(images, logits)


def decayed_variables(model: tf.keras.Model) -> list[tf.Variable]:
    """Return all but those of batch normalisation, as NVIDIA's script does."""
    return [
        variable
        for layer in model.layers
        if not isinstance(layer, tf.keras.layers.BatchNormalization)
        for variable in layer.trainable_variables
    ]


def smoothed(labels: tf.Tensor, classes: int) -> tf.Tensor:
    """Return the targets of ``labels``, of shape (batch, classes)."""
    return tf.one_hot(labels, classes) * (1 - LABEL_SMOOTHING) + LABEL_SMOOTHING / classes


def feed(job: TensorflowJob, size: Size) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
    """Return images and targets; without real data the same for ever, as the loss must fall."""
    if job.data is not None:
        from .tf_data import Images

        batches = job.batches(Images(job, classes=size.classes, image=size.image))
        return ((images, smoothed(labels, size.classes)) for images, labels in batches)
    random, batch = job.generator(), job.batch_size_per_device
    images = random.normal((batch, size.image, size.image, 3))
    labels = random.uniform((batch,), maxval=size.classes, dtype=tf.int32)
    return itertools.repeat((images, smoothed(labels, size.classes)))


def build(job: TensorflowJob) -> Callable[[], tf.Tensor]:
    """Return one training iteration."""
    size, batch = SIZES[job.size], job.batch_size_per_device
    model = job.data_parallel(resnet50(size, batch))
    optimizer = job.optimizer(tf.keras.optimizers.SGD(0.0, momentum=MOMENTUM))
    variables, decayed = model.trainable_variables, decayed_variables(model)
    batches = feed(job, size)

    @tf.function(jit_compile=bool(job.options.get("xla", False)))  # type: ignore[untyped-decorator]
    def forward_backward(
        images: tf.Tensor, targets: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            logits = tf.cast(model(images, training=True), tf.float32)
            losses = tf.nn.softmax_cross_entropy_with_logits(targets, logits)
            loss = tf.reduce_mean(losses)
            penalised = loss + WEIGHT_DECAY * tf.add_n([tf.nn.l2_loss(v) for v in decayed])
        return loss, job.gradients(tape, penalised, variables)

    @tf.function  # type: ignore[untyped-decorator]
    def train(images: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        loss, gradients = forward_backward(images, targets)
        job.update(optimizer, gradients, variables)
        return loss

    iteration = 0

    def step() -> tf.Tensor:
        nonlocal iteration
        iteration += 1
        optimizer.learning_rate = learning_rate(size, batch * job.world_size, iteration)
        return train(*next(batches))

    return step
