"""Trainings whose compiler counts its graphs, their operators, and how often each ran.

``python counted.py ITERATIONS FORM...`` trains each form without pytest-dlperf.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import torch

#: What is compiled, and how.
FORMS = ("module", "function", "fullgraph", "late", "step")


class Counting:
    """A backend of torch.compile that runs graphs as they are, and counts."""

    def __init__(self) -> None:
        #: Of each graph: its operators, and its calls.
        self.graphs: list[list[int]] = []

    def __call__(self, graph, inputs):
        operators = [node for node in graph.graph.nodes if node.op.startswith("call_")]
        counts = [len(operators), 0]
        self.graphs.append(counts)

        def run(*args):
            counts[1] += 1
            return graph.forward(*args)

        return run


def build(job):
    """Train a small net; option ``form`` says what of it is compiled.

    The counts of every iteration go into the run's folder.
    """
    form, backend = str(job.options["form"]), Counting()
    net = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
    model = job.data_parallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(job.batch_size_per_device, 32, generator=job.generator())
    y = torch.arange(job.batch_size_per_device) % 4

    def loss_of(x, y):
        return torch.nn.functional.cross_entropy(called(x), y)

    def train(x, y):
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    def eager(x, y):
        loss = forward(x, y)
        job.backward(loss, optimizer)
        return loss

    called = torch.compile(model, backend=backend) if form == "module" else model
    forward, one = loss_of, eager
    if form in {"function", "fullgraph"}:
        forward = torch.compile(loss_of, backend=backend, fullgraph=form == "fullgraph")
    elif form == "step":
        one = torch.compile(train, backend=backend)
    counts = []

    def step():
        nonlocal forward
        if form == "late" and not counts:
            forward = torch.compile(loss_of, backend=backend)
        loss = one(x, y)
        counts.append([list(graph) for graph in backend.graphs])
        if len(counts) == job.options["iterations"]:
            file = Path(os.environ["DLPERF_COUNTS"]) / f"{form}.json"
            file.write_text(json.dumps(counts), encoding="utf-8")
        return loss

    return step


def backward(loss, optimizer):
    """Do what the job does in float32."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def train_bare(form: str, iterations: int) -> None:
    bare = SimpleNamespace(
        options={"form": form, "iterations": iterations},
        batch_size_per_device=8,
        generator=lambda: torch.Generator().manual_seed(0),
        data_parallel=lambda model: model,
        backward=backward,
    )
    step = build(bare)
    for _ in range(iterations):
        step()


if __name__ == "__main__":
    # Imports take most of the time. A fork for each form: what one has compiled, no other knows.
    importlib.import_module("torch._dynamo")
    for form in sys.argv[2:]:
        child = os.fork()
        if child == 0:
            train_bare(form, int(sys.argv[1]))
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            sys.exit(f"{form} failed")
