"""Small trainings, right and wrong, for tests of what a rank checks."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch


def build(job):
    """Train a small net on one fixed batch; ``fault`` names what is wrong with it."""
    fault = str(job.options.get("fault", ""))
    at = 5
    misbehave_in_build(fault, job)
    if fault == "returns-nothing":
        return None
    model = torch.nn.Sequential(
        torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)
    ).to(job.device)
    if fault in {"not-averaged", "undeclared"}:
        if fault == "not-averaged":
            job.replicated(model.parameters())
    else:
        model = job.data_parallel(model)
    lr = {"flat": 0.0, "nan": 1e30}.get(fault, 0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    batch = job.batch_size_per_device + (1 if fault == "wrong-batch" else 0)
    x = torch.randn(batch, 32, generator=job.generator())
    y = torch.randint(0, 4, (batch,), generator=job.generator())
    pace_s = float(job.options.get("pace_s", 0))
    done = 0

    def step():
        nonlocal done
        done += 1
        if done == at:
            misbehave(fault, job)
        # The first two iterations are those whose shapes and operations are recorded
        rows = 3 if fault == "shrinking-batch" and done > 2 else len(x)
        with torch.autocast("cpu", torch.bfloat16) if fault == "wrong-dtype" else job.autocast():
            loss = torch.nn.functional.cross_entropy(model(x[:rows]), y[:rows])
        job.backward(loss, optimizer)
        if pace_s:
            time.sleep(pace_s)
        return None if fault == "no-loss" else loss

    return step


def tokens(job):
    """Train a small model of tokens, 64 a sequence; ``says`` is when it says how many."""
    says = job.options.get("says", "")
    model = torch.nn.Sequential(torch.nn.Embedding(50, 16), torch.nn.Linear(16, 50))
    model = job.data_parallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    ids = torch.randint(0, 50, (job.batch_size_per_device, 64), generator=job.generator())
    if says == "in build":
        job.work(ids.numel())
    done = 0

    def step():
        nonlocal done
        done += 1
        if says == "in each step":
            job.work(ids.numel() + done % 2)
        with job.autocast():
            logits = model(ids)
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())
        job.backward(loss, optimizer)
        return loss

    return step


def misbehave_in_build(fault, job):
    """Do what the fault is named for, before anything trains."""
    if fault == "raises-in-build":
        raise RuntimeError("boom in build")
    if fault == "too-large-for-one" and job.world_size == 1:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 160.00 GiB")
    if fault == "raises-in-build-of-one" and job.world_size > 1:
        if job.rank == 1:
            raise RuntimeError("boom in build of one")
        time.sleep(8)
    if fault == "exits-in-build" and job.rank == job.world_size - 1 > 0:
        raise SystemExit("no data here")


def misbehave(fault, job):
    """Do what the fault is named for, in the last of several ranks: a parent lives.

    A single rank only sleeps.
    """
    if fault == "raises" and job.rank == job.world_size - 1 > 0:
        raise ValueError("boom in step")
    if fault == "sleeps-alone" and job.world_size == 1:
        Path(os.environ["DLPERF_RUN"], "asleep").touch()
        time.sleep(3600)
