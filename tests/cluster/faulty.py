"""A small training for the faults of nodes; ``fault`` names what goes wrong, in the last rank."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import torch


def build(job):
    model = job.data_parallel(torch.nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(job.batch_size_per_device, 32, generator=job.generator())
    y = torch.randint(0, 4, (job.batch_size_per_device,), generator=job.generator())
    fault = str(job.options.get("fault", ""))
    folder = Path(os.environ["DLPERF_RUN"])
    done = 0

    def step():
        nonlocal done
        done += 1
        if done == 5 and job.rank == job.world_size - 1 > 0:
            (folder / f"rank{job.rank:05d}.trains").touch()
            if fault in {"raises", "killed"}:
                (folder / "fault-at").write_text(str(time.time()))
            misbehave(fault)
        if fault == "paced" and job.world_size > 1:
            time.sleep(1.0)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        job.backward(loss, optimizer)
        return loss

    return step


def misbehave(fault):
    if fault == "raises":
        raise ValueError("boom in step")
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "sleeps":
        time.sleep(3600)
