"""A suite's own training in TensorFlow, with the faults of ``tests/helpers/planted_faults.py``."""

from __future__ import annotations

import tensorflow as tf

from perf_tests.resnet50 import tf_horovod_train as resnet50_train
from tests.helpers.fault_in_environment import planted


def resnet50(job):
    fault = planted(job.world_size)
    if fault == "learning-rate-0":
        resnet50_train.learning_rate = lambda *_: 0.0
    if fault == "shuffled-labels":
        loss = tf.nn.softmax_cross_entropy_with_logits
        tf.nn.softmax_cross_entropy_with_logits = lambda labels, logits: loss(
            tf.random.shuffle(labels), logits
        )
    if fault == "not-averaged":
        import horovod.tensorflow as hvd

        # It averages in its own minimize() alone: after a tape of one's own, never.
        job.optimizer = lambda _optimizer: hvd.DistributedOptimizer(
            tf.keras.optimizers.legacy.SGD(0.0, momentum=resnet50_train.MOMENTUM)
        )
        job.update = lambda optimizer, gradients, variables: optimizer.apply_gradients(
            zip(gradients, variables, strict=True), experimental_aggregate_gradients=False
        )
    return resnet50_train.build(job)
