"""A small training in Paddle, right and wrong."""

from __future__ import annotations

import os
import signal
import time

import paddle


def build(job):
    """Train a small net on one fixed batch; ``fault`` names what is wrong with it."""
    fault = str(job.options.get("fault", ""))
    net = paddle.nn
    model = net.Sequential(net.Linear(32, 64), net.BatchNorm1D(64), net.ReLU(), net.Linear(64, 4))
    if fault == "not-averaged":
        job.replicated(model.parameters())
    else:
        model = job.data_parallel(model)
    optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
    random = job.generator()
    x = paddle.to_tensor(random.standard_normal((job.batch_size_per_device, 32), "float32"))
    y = paddle.to_tensor(random.integers(4, size=job.batch_size_per_device))
    done = 0

    def step():
        nonlocal done
        done += 1
        if done == 5 and job.rank == job.world_size - 1 > 0:
            misbehave(fault)
        with job.autocast():
            loss = net.functional.cross_entropy(model(x), y)
        job.backward(loss, optimizer)
        return loss

    return step


def misbehave(fault):
    """Do what the fault is named for."""
    if fault == "raises":
        raise ValueError("boom in step")
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "sleeps":
        time.sleep(3600)
    if fault == "launcher-killed":
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(3600)
