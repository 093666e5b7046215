"""A suite's own training in Paddle, with the faults of ``tests/helpers/planted_faults.py``."""

from __future__ import annotations

import paddle
from paddle.nn import functional as F

from perf_tests.resnet50 import paddle_train as resnet50_train
from tests.helpers.fault_in_environment import planted


def resnet50(job):
    fault = planted(job.world_size)
    if fault == "learning-rate-0":
        # Whatever rate a schedule sets, nothing moves.
        paddle.optimizer.Momentum.set_lr = lambda _self, _rate: None
    if fault == "shuffled-labels":
        loss = F.cross_entropy
        F.cross_entropy = lambda x, labels, **named: loss(
            x, labels[paddle.randperm(len(labels))], **named
        )
    if fault == "not-averaged":
        job.data_parallel = lambda module: job.replicated(module.parameters()) or module
    return resnet50_train.build(job)
