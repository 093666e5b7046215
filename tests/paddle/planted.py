"""A suite's own training in Paddle, with the faults of ``tests/helpers/planted_faults.py``."""

from __future__ import annotations

import contextlib

import paddle
from paddle.nn import functional as F

from perf_tests import paddle_batches
from perf_tests.arcface import paddle_train as arcface_train
from perf_tests.bert import paddle_train as bert_train
from perf_tests.deeplabv3p import paddle_train as deeplabv3p_train
from perf_tests.hrnet import paddle_train as hrnet_train
from perf_tests.llama import paddle_train as llama_train
from perf_tests.resnet50 import paddle_train as resnet50_train
from perf_tests.transformer import paddle_train as transformer_train
from perf_tests.tsm import paddle_train as tsm_train
from tests.helpers.fault_in_environment import planted


def arcface(job):
    head = arcface_train.ShardedArcFace
    loss = head.forward
    if plant(job, "Momentum") == "shuffled-labels":
        head.forward = lambda self, x, labels: shuffling(lambda x, y: loss(self, x, y))(x, labels)
    return in_its_dtype(arcface_train.build(job), job)


def bert(job):
    if plant(job, "AdamW", shuffled=True) == "not-averaged":
        bert_train.Bert.no_sync = contextlib.nullcontext
    return in_its_dtype(bert_train.build(job), job)


def suite(train, optimizer):
    """Return the workload of a suite whose loss is Paddle's cross entropy."""

    def build(job):
        plant(job, optimizer, shuffled=True)
        return in_its_dtype(train.build(job), job)

    return build


deeplabv3p = suite(deeplabv3p_train, "Momentum")
hrnet = suite(hrnet_train, "Momentum")
llama = llama_recomputed = suite(llama_train, "AdamW")
resnet50 = suite(resnet50_train, "Momentum")
transformer = suite(transformer_train, "Adam")
tsm = suite(tsm_train, "Momentum")


def tuned(workload):
    """Return a workload that trains as tuned cases in half types do, in float32: channels last."""

    def build(job):
        paddle_batches.HALF["fp32"] = "float32"
        return workload(job)

    return build


arcface_tuned, deeplabv3p_tuned = tuned(arcface), tuned(deeplabv3p)
resnet50_tuned, tsm_tuned = tuned(resnet50), tuned(tsm)


def in_its_dtype(step, job):
    """Return the step; in float64 where that is the fault.

    Paddle's autocast does nothing on CPUs, which have no convolutions in a shorter dtype.
    """
    if planted(job.world_size) == "wrong-dtype":
        F.conv._conv_nd = in_float64(F.conv._conv_nd)
        F.linear = in_float64(F.linear)
        paddle.matmul = in_float64(paddle.matmul)
    return step


def in_float64(product):
    """Return ``product``, computed in float64."""

    def computed(*arguments, **named):
        def wider(one):
            is_float = isinstance(one, paddle.Tensor) and one.dtype == paddle.float32
            return one.astype("float64") if is_float else one

        made = product(*map(wider, arguments), **{name: wider(one) for name, one in named.items()})
        return made.astype("float32")

    return computed


def plant(job, optimizer, *, shuffled=False):
    """Plant the fault in the optimizer of this name, in averaging or the labels; return it.

    ``shuffled``: the suite's loss is Paddle's cross entropy.
    """
    fault = planted(job.world_size)
    if fault == "learning-rate-0":
        kind = getattr(paddle.optimizer, optimizer)
        setattr(paddle.optimizer, optimizer, frozen(kind))
    if fault == "not-averaged":
        job.data_parallel = lambda module: job.replicated(module.parameters()) or module
    if fault == "shuffled-labels" and shuffled:
        F.cross_entropy = shuffling(F.cross_entropy)
    return fault


def frozen(optimizer):
    """Return an optimizer that moves nothing, whatever rate a schedule sets."""

    class Frozen(optimizer):
        def step(self):
            self.set_lr(0.0)
            return super().step()

    return Frozen


def shuffling(loss):
    """Return ``loss``, given the labels in another order each time."""
    return lambda x, labels, **named: loss(x, labels[paddle.randperm(len(labels))], **named)
