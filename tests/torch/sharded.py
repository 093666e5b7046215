"""A training under FSDP2, whose parameters are DTensors."""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard


def build(job):
    """Train a small net whose parameters are sharded; ``declare`` says which are replicated."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)
    ).to(job.device)
    fully_shard(model)
    job.modules.append(model)
    parameters = list(model.parameters())
    job.replicated(parameters if job.options["declare"] == "shards" else [])
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    x = torch.randn(job.batch_size_per_device, 32, generator=job.generator())
    y = torch.arange(job.batch_size_per_device) % 4
    said = {
        "ranks": dist.get_world_size(),
        "kinds": sorted({type(parameter).__name__ for parameter in parameters}),
        "pointers": [parameter.detach().cpu().data_ptr() for parameter in parameters],
    }
    Path(os.environ["DLPERF_RUN"], f"sharded{job.rank}.json").write_text(json.dumps(said))

    def step():
        loss = torch.nn.functional.cross_entropy(model(x), y)
        job.backward(loss, optimizer)
        return loss

    return step
