"""A workload: its loop is the plugin's."""

import torch
from amount import STEP


def build(job):
    model = job.data_parallel(torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(6)]))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(job.batch_size_per_device, 256, generator=job.generator())

    def step():
        for _ in range(STEP):
            x @ x.T
        loss = model(x).pow(2).mean()
        job.backward(loss, optimizer)
        return loss

    return step
