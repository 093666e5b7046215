"""A small training on ranks of which one may be slow, or that ends with its iterations."""

from __future__ import annotations

import itertools
import time

import torch


def build(job):
    """Train a linear layer; ranks sleep ``base_s`` a step, and the last one ``slow_s`` more.

    They do so after their collectives.
    """
    torch.manual_seed(1)
    model = job.data_parallel(torch.nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(job.batch_size_per_device, 32, generator=job.generator())
    y = torch.randint(0, 4, (job.batch_size_per_device,), generator=job.generator())
    sleep_s = float(job.options.get("base_s", 0))
    if job.rank == job.world_size - 1:
        sleep_s += float(job.options.get("slow_s", 0))
    left = iter(range(30)) if job.options.get("ends") else itertools.count()

    def step():
        next(left)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        job.backward(loss, optimizer)
        time.sleep(sleep_s)
        return loss

    return step
