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


def deeplabv3p(job):
    if plant(job, "SGD") == "shuffled-labels":
        shuffle(deeplabv3p_train.F, "cross_entropy")
    return in_its_dtype(deeplabv3p_train.build(job), job)


def dlrm(job):
    if plant(job, "Adagrad") == "shuffled-labels":
        shuffle(dlrm_train.F, "binary_cross_entropy_with_logits")
    return in_its_dtype(dlrm_train.build(job), job)


def hrnet(job):
    if plant(job, "SGD") == "shuffled-labels":
        shuffle(hrnet_train.F, "cross_entropy")
    return in_its_dtype(hrnet_train.build(job), job)


def llama(job):
    if plant(job, "AdamW") == "shuffled-labels":
        shuffle(llama_train.F, "cross_entropy")
    return in_its_dtype(llama_train.build(job), job)


def resnet50(job):
    if plant(job, "SGD") == "shuffled-labels":
        shuffle(resnet50_train.F, "cross_entropy")
    return in_its_dtype(resnet50_train.build(job), job)


def transformer(job):
    if plant(job, "Adam") == "shuffled-labels":
        shuffle(transformer_train.F, "cross_entropy")
    return in_its_dtype(transformer_train.build(job), job)


def tsm(job):
    if plant(job, "SGD") == "shuffled-labels":
        shuffle(tsm_train.F, "cross_entropy")
    return in_its_dtype(tsm_train.build(job), job)


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
