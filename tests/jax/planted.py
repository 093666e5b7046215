"""A suite's own training in JAX, with the faults of ``tests/helpers/planted_faults.py``."""

from __future__ import annotations

import jax
from jax import lax

from perf_tests.resnet50 import jax_train as resnet50_train
from tests.helpers.fault_in_environment import planted


def resnet50(job):
    fault = planted(job.world_size)
    if fault == "learning-rate-0":
        resnet50_train.learning_rate = lambda *_: 0.0
    if fault == "shuffled-labels":
        loss = resnet50_train.cross_entropy

        def shuffled(logits, labels, classes):
            # Another order for each step: the logits are others as well
            key = jax.random.key(lax.bitcast_convert_type(logits[0, 0], "uint32"))
            return loss(logits, jax.random.permutation(key, labels), classes)

        resnet50_train.cross_entropy = shuffled
    if fault == "not-averaged":
        lax.pmean = lambda tree, _axis: tree
    return resnet50_train.build(job)
