"""A small training in PyTorch whose last of several ranks does what its fault is named for."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from pathlib import Path

import torch


def build(job):
    fault = str(job.options.get("fault", ""))
    model = job.data_parallel(torch.nn.Linear(32, 4).to(job.device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(job.batch_size_per_device, 32, generator=job.generator())
    y = torch.randint(0, 4, (job.batch_size_per_device,), generator=job.generator())
    done = 0
    if fault == "aborts-at-its-end":
        os._exit = lambda _status: os.abort()

    def step():
        nonlocal done
        done += 1
        # The one-device parent lives.
        has_it = job.world_size > 1 or fault == "asks-for-too-much"
        if done == 5 and job.rank == job.world_size - 1 and has_it and fault in FAULTS:
            note()
            FAULTS[fault]()
        with job.autocast():
            loss = torch.nn.functional.cross_entropy(model(x), y)
        job.backward(loss, optimizer)
        return loss

    return step


def note() -> None:
    Path(os.environ["DLPERF_RUN"]).parent.joinpath("fault-at").write_text(
        str(time.time()), encoding="ascii"
    )


def raises() -> None:
    raise ValueError("boom in step")


def is_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def leaves() -> None:
    os._exit(0)


def launcher_is_killed() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)


def sleeps() -> None:
    time.sleep(600)


def holds_the_interpreter() -> None:
    """Hang in C, with the interpreter's lock: no thread of this rank can say a word."""
    ctypes.PyDLL(None).sleep(600)


def is_stuck_at_a_lock() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def asks_for_too_much() -> None:
    torch.empty(2**60, dtype=torch.uint8)


FAULTS = {
    "raises": raises,
    "is-killed": is_killed,
    "leaves": leaves,
    "launcher-is-killed": launcher_is_killed,
    "sleeps": sleeps,
    "holds-the-interpreter": holds_the_interpreter,
    "is-stuck-at-a-lock": is_stuck_at_a_lock,
    "asks-for-too-much": asks_for_too_much,
}


if __name__ == "__main__":
    sys.exit("this is a workload")
