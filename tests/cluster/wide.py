"""A training whose gradients, 6 MB a step, are felt on a slow link."""

from __future__ import annotations

import torch


def build(job):
    model = torch.nn.Sequential(
        torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512)
    )
    model = job.data_parallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(job.batch_size_per_device, 1024, generator=job.generator())
    y = torch.randint(0, 512, (job.batch_size_per_device,), generator=job.generator())

    def step():
        with job.autocast():
            loss = torch.nn.functional.cross_entropy(model(x), y)
        job.backward(loss, optimizer)
        return loss

    return step
