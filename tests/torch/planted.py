"""A suite's own training, with the faults of ``tests/helpers/planted_faults.py``."""

from __future__ import annotations

import contextlib

import torch

from perf_tests.arcface import torch_train as arcface_train
from perf_tests.bert import torch_train as bert_train
from perf_tests.deeplabv3p import torch_train as deeplabv3p_train
from perf_tests.dlrm import torch_train as dlrm_train
from perf_tests.hrnet import torch_train as hrnet_train
from perf_tests.llama import torch_train as llama_train
from perf_tests.resnet50 import torch_train as resnet50_train
from perf_tests.transformer import torch_train as transformer_train
from perf_tests.tsm import torch_train as tsm_train
from tests.helpers.fault_in_environment import planted


def arcface(job):
    head = arcface_train.ShardedArcFace
    loss = head.forward
    if plant(job, "SGD") == "shuffled-labels":
        head.forward = lambda self, x, labels: shuffling(lambda x, y: loss(self, x, y))(x, labels)
    return in_its_dtype(arcface_train.build(job), job)


def bert(job):
    fault = plant(job, "AdamW")
    if fault == "shuffled-labels":
        shuffle(bert_train.F, "cross_entropy")
    if fault == "not-averaged":
        bert_train.Bert.no_sync = contextlib.nullcontext
    return in_its_dtype(bert_train.build(job), job)


def suite(train, optimizer, loss="cross_entropy"):
    """Return the workload of a suite whose loss is this function of PyTorch."""

    def build(job):
        if plant(job, optimizer) == "shuffled-labels":
            shuffle(train.F, loss)
        return in_its_dtype(train.build(job), job)

    return build


deeplabv3p = suite(deeplabv3p_train, "SGD")
dlrm = suite(dlrm_train, "Adagrad", loss="binary_cross_entropy_with_logits")
hrnet = suite(hrnet_train, "SGD")
llama = suite(llama_train, "AdamW")
resnet50 = suite(resnet50_train, "SGD")
transformer = suite(transformer_train, "Adam")
tsm = suite(tsm_train, "SGD")


def in_its_dtype(step, job):
    """Return the step, in bfloat16 where that is the fault."""
    if planted(job.world_size) != "wrong-dtype":
        return step

    def wrong():
        with torch.autocast(job.device.type, torch.bfloat16):
            return step()

    return wrong


def plant(job, optimizer):
    """Plant the fault, if it is in the optimizer of this name or in averaging; return it."""
    fault = planted(job.world_size)
    if fault == "learning-rate-0":
        setattr(torch.optim, optimizer, frozen(getattr(torch.optim, optimizer)))
    if fault == "not-averaged":
        job.data_parallel = lambda module: job.replicated(module.parameters()) or module
    return fault


def frozen(optimizer):
    """Return an optimizer that moves nothing, whatever rate a schedule sets."""

    class Frozen(optimizer):
        def step(self, closure=None):
            for group in self.param_groups:
                group["lr"] = 0.0
            return super().step(closure)

    return Frozen


def shuffle(functions, name):
    setattr(functions, name, shuffling(getattr(functions, name)))


def shuffling(loss):
    """Return ``loss``, given the labels in another order each time."""
    return lambda x, labels, **named: loss(x, labels[torch.randperm(len(labels))], **named)
