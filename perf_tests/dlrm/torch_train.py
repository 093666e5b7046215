"""Trains DCNv2 or Wide & Deep: tables are spread over the ranks, layers are copied."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F

from .recipe import CLICKED, EPSILON, SIZES, Size
from .torch_model import MODELS, Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_dlperf.worker.frameworks.torch.job import TorchJob

    #: Dense numbers, rows of the tables, labels.
    Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def feed(job: TorchJob, size: Size, hots: tuple[int, ...]) -> Iterator[Batch]:
    """Return the batches; without real data one and the same for ever, as the loss must fall."""
    if job.data is not None:
        from .data import Clicks

        dataset = Clicks(job.data, size.rows, size.dense)
        return (
            (dense.to(job.device), rows.to(job.device), labels.to(job.device))
            for dense, rows, labels in job.batches(job.loader(dataset))
        )
    made, batch = job.generator(), job.batch_size_per_device
    dense = torch.randn(batch, size.dense, generator=made, device=job.device)
    rows = [
        skewed(torch.rand(batch, hot, generator=made, device=job.device), count)
        for count, hot in zip(size.rows, hots, strict=True)
    ]
    chances = torch.rand(batch, generator=made, device=job.device)
    labels = (chances < CLICKED).float()
    return itertools.repeat((dense, torch.cat(rows, dim=1), labels))


def skewed(uniform: torch.Tensor, count: int) -> torch.Tensor:
    """Return rows of a table of ``count``: each decade of them is as frequent as the next.

    As in logs of clicks, a few rows are in most samples (Zipf's law with exponent 1).
    """
    return (count**uniform).long().clamp(1, count) - 1


def build(job: TorchJob) -> Callable[[], torch.Tensor]:
    """Return one training iteration; options: ``model`` and ``rows_max``, of each table."""
    size = SIZES[job.size]
    rows_max = int(job.options.get("rows_max", max(size.rows)))
    size = size._replace(rows=tuple(min(rows, rows_max) for rows in size.rows))
    hots = size.hots if job.data is None else (1,) * len(size.rows)
    kind = MODELS[str(job.options["model"])]
    with torch.device(job.device):
        tables = Tables(size, hots, size.embedding + kind.beside, job.rank, job.world_size)
    model = job.data_parallel(kind(size))
    optimizer = torch.optim.Adagrad(
        [*model.parameters(), *tables.parameters()], lr=size.learning_rate, eps=EPSILON
    )
    batches = feed(job, size, hots)

    def step() -> torch.Tensor:
        dense, rows, labels = next(batches)
        with job.autocast():
            logits = model(dense, tables(rows))
        loss = F.binary_cross_entropy_with_logits(logits.float(), labels)
        job.backward(loss, optimizer)
        return loss

    return step
