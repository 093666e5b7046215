"""Trains Transformer big in PyTorch under DistributedDataParallel."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F

from .recipe import BETAS, EPSILON, LABEL_SMOOTHING, SIZES, learning_rate, sentences
from .torch_model import Transformer

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_dlperf.worker.frameworks.torch.job import TorchJob


def build(job: TorchJob) -> Callable[[], torch.Tensor]:
    """Return one training iteration on one fixed batch of sentences of one length."""
    size = SIZES[job.size]
    count = sentences(size, job.batch_size_per_device)
    model = job.data_parallel(Transformer(size))
    optimizer = torch.optim.Adam(
        model.parameters(), lr=0.0, betas=BETAS, eps=EPSILON, fused=job.device.type == "cuda"
    )
    random = {"generator": job.generator(), "device": job.device}
    source = torch.randint(size.vocabulary, (count * size.length,), **random)
    target = torch.randint(size.vocabulary, (count, size.length + 1), **random)
    batches = itertools.repeat((source, target[:, :-1].flatten(), target[:, 1:].flatten()))
    job.work(count * size.length)
    steps = itertools.count(1)

    def step() -> torch.Tensor:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(size, next(steps))
        source, before, after = next(batches)
        with job.autocast():
            logits = model(source, before)
        loss = F.cross_entropy(logits.float(), after, label_smoothing=LABEL_SMOOTHING)
        job.backward(loss, optimizer)
        return loss

    return step
