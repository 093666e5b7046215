"""A training that reads its data, right and wrong."""

from __future__ import annotations

from dataclasses import replace

import torch


class Samples:
    def __init__(self, fault):
        self.fault = fault

    def __len__(self):
        return 40

    def __getitem__(self, index):
        if self.fault == "broken" and index == 13:
            return 1 / 0
        return torch.full((32,), index / 40), index % 4


def build(job):
    """Train a small net on numbered samples; ``fault`` names what is wrong with them."""
    fault = job.options["fault"]
    if fault == "same":
        # What a loader without a distributed sampler does.
        alone = replace(job, rank=0, world_size=1)
        batches = alone.batches(alone.loader(Samples(fault)))
    elif fault == "unused":
        batches = iter([(torch.randn(8, 32), torch.arange(8) % 4)] * 20)
    elif fault == "smaller":
        # A loader of one's own, which leaves its last batch in
        rows = [job.batch_size_per_device, job.batch_size_per_device, 1]
        batches = job.batches([(torch.randn(n, 32), torch.arange(n) % 4) for n in rows])
    else:
        batches = job.batches(job.loader(Samples(fault)))
    model = job.data_parallel(torch.nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        x, y = next(batches)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        job.backward(loss, optimizer)
        return loss

    return step
