"""Trainings whose ranks hold parts of a model: FSDP2, and a pipeline."""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe


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


def pipeline(job):
    """Train the two stages of a pipeline on two microbatches."""
    group, index = job.mesh["pp"].get_group(), job.mesh.get_local_rank("pp")
    torch.manual_seed(index)
    layers = [torch.nn.Linear(32, 64), torch.nn.ReLU()] if index == 0 else [torch.nn.Linear(64, 4)]
    module = torch.nn.Sequential(*layers)
    job.modules.append(module)
    job.replicated(module.parameters())
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    stage = PipelineStage(module, index, 2, job.device, group=group)
    schedule = ScheduleGPipe(stage, 2, loss_fn=torch.nn.functional.cross_entropy)
    x = torch.randn(job.batch_size_per_device, 32, generator=job.generator())
    y = torch.arange(job.batch_size_per_device) % 4

    def step():
        optimizer.zero_grad()
        losses = []
        if index == 0:
            schedule.step(x)
        else:
            schedule.step(target=y, losses=losses)
        optimizer.step()
        loss = torch.stack(losses).mean().detach() if losses else torch.zeros(())
        dist.broadcast(loss, group_src=1, group=group)
        return loss

    return step
