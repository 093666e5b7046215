"""A suite's own training, with the faults of ``tests/helpers/planted_faults.py``."""

from __future__ import annotations

import torch

from perf_tests.arcface import torch_train as arcface_train
from perf_tests.dlrm import torch_train as dlrm_train
from perf_tests.llama import torch_train as llama_train
from tests.helpers.fault_in_environment import planted


def arcface(job):
    plant(job)
    return arcface_train.build(job)


def dlrm(job):
    if (fault := planted(job.world_size)) == "learning-rate-0":
        torch.optim.Adagrad = FrozenAdagrad
    if fault == "shuffled-labels":
        loss = torch.nn.functional.binary_cross_entropy_with_logits
        dlrm_train.F.binary_cross_entropy_with_logits = shuffling(loss)
    if fault == "not-averaged":
        job.data_parallel = lambda module: job.replicated(module.parameters()) or module
    return dlrm_train.build(job)


def llama(job):
    if (fault := planted(job.world_size)) == "learning-rate-0":
        torch.optim.AdamW = FrozenAdamW
    if fault == "shuffled-labels":
        loss = torch.nn.functional.cross_entropy
        llama_train.F.cross_entropy = shuffling(loss)
    if fault == "not-averaged":
        job.data_parallel = lambda module: job.replicated(module.parameters()) or module
    return llama_train.build(job)


def plant(job):
    fault = planted(job.world_size)
    if fault == "learning-rate-0":
        torch.optim.SGD = Frozen
    if fault == "shuffled-labels":
        head = arcface_train.ShardedArcFace
        loss = head.forward
        head.forward = lambda self, x, labels: shuffling(lambda x, y: loss(self, x, y))(x, labels)
    if fault == "not-averaged":
        job.data_parallel = lambda module: job.replicated(module.parameters()) or module


class Frozen(torch.optim.SGD):
    """Whatever rate a schedule sets, nothing moves."""

    def step(self, closure=None):
        for group in self.param_groups:
            group["lr"] = 0.0
        return super().step(closure)


class FrozenAdagrad(torch.optim.Adagrad):
    """Nothing moves."""

    def step(self, closure=None):
        for group in self.param_groups:
            group["lr"] = 0.0
        return super().step(closure)


class FrozenAdamW(torch.optim.AdamW):
    """Nothing moves, and no weight decays."""

    def step(self, closure=None):
        for group in self.param_groups:
            group["lr"] = 0.0
        return super().step(closure)


def shuffling(loss):
    """Return ``loss``, given the labels in another order each time."""
    return lambda x, labels, **named: loss(x, labels[torch.randperm(len(labels))], **named)
