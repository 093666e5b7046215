"""A training through torch.compile, whose shapes may change when it is measured."""

from __future__ import annotations

import torch


def build(job):
    """Train a small compiled net; option ``new_shape_at`` names an iteration with fewer rows."""
    model = job.data_parallel(torch.nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(job.batch_size_per_device, 32, generator=job.generator())
    y = torch.arange(job.batch_size_per_device) % 4
    at = int(job.options.get("new_shape_at", -1))
    done = 0

    @torch.compile(backend="eager")
    def loss_of(logits, y):
        return torch.nn.functional.cross_entropy(logits * 2, y)

    def step():
        nonlocal done
        logits = model(x)
        rows = 6 if done == at else 8
        done += 1
        loss = loss_of(logits[:rows], y[:rows])
        job.backward(loss, optimizer)
        return loss

    return step
