"""Small trainings, each by another path of PyTorch, and some with a fault."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from pytest_dlperf.worker.frameworks.torch.job import TorchJob

    Step = Callable[[], Any]

#: The iteration, counted from 1, in which a fault comes: in the measured window.
FAULT_AT = 80


def net(job: TorchJob) -> nn.Module:
    """Return a small convolutional net; wide enough on a GPU to keep it busy."""
    width = 256 if job.device.type == "cuda" else 8
    return nn.Sequential(
        nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
        nn.Conv2d(width, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10),
    )  # fmt: skip


def batch(job: TorchJob) -> tuple[torch.Tensor, torch.Tensor]:
    """Return one batch of noise."""
    random: dict[str, Any] = {"generator": job.generator(), "device": job.device}
    images = torch.randn(job.batch_size_per_device, 3, 64, 64, **random)
    return images, torch.randint(10, (job.batch_size_per_device,), **random)


def trained(
    job: TorchJob,
    loss_of: Callable[[nn.Module], Callable[..., torch.Tensor]] | None = None,
    wrap: Callable[[nn.Module], nn.Module] = lambda model: model,
    **optimizer_options: Any,
) -> Step:
    """Return one iteration of SGD; ``loss_of`` makes the loss of images and labels."""
    model = job.data_parallel(net(job))
    called = wrap(model)
    images, labels = batch(job)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, **optimizer_options)
    loss_fn: Any = loss_of(called) if loss_of else lambda x, y: F.cross_entropy(called(x), y)

    def step() -> torch.Tensor:
        with job.autocast():
            loss = loss_fn(images, labels)
        job.backward(loss, optimizer)
        return loss

    return step


def plain(job: TorchJob) -> Step:
    """Train eagerly."""
    return trained(job)


def fused(job: TorchJob) -> Step:
    """Train with an optimizer in one kernel."""
    return trained(job, fused=True)


def module_compiled(job: TorchJob) -> Step:
    """Compile the module."""
    return trained(job, wrap=torch.compile)


def _compiled(job: TorchJob, **how: Any) -> Step:
    def loss_of(model: nn.Module) -> Any:
        return torch.compile(lambda x, y: F.cross_entropy(model(x), y), **how)

    return trained(job, loss_of)


def function_compiled(job: TorchJob) -> Step:
    """Compile the function of the loss."""
    return _compiled(job)


def fullgraph(job: TorchJob) -> Step:
    """Compile it as one graph."""
    return _compiled(job, fullgraph=True)


def reduce_overhead(job: TorchJob) -> Step:
    """Compile it into CUDA graphs."""
    return _compiled(job, mode="reduce-overhead")


def secretly_tf32(job: TorchJob) -> Step:
    """Turn TF32 on by the old API: an fp32 case is to be an error."""
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    return trained(job)


def newly_tf32(job: TorchJob) -> Step:
    """Turn TF32 on by the API of PyTorch 2.9."""
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    return trained(job)


def number_each_step(job: TorchJob) -> Step:
    """Return a number, for which the host waits."""
    step = trained(job)
    return lambda: step().item()


def cuda_graph(job: TorchJob) -> Step:
    """Capture the whole iteration by hand."""
    model = job.data_parallel(net(job))
    images, labels = batch(job)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def trained_step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=False)
        with job.autocast():
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    # Captured work needs a stream beside the default one (torch.cuda.CUDAGraph's notes)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            trained_step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = trained_step()

    # A graph has the addresses of what it reads, and keeps none of it alive
    def step(_keeps: object = trained_step) -> torch.Tensor:
        graph.replay()
        return loss

    return step


def fsdp2(job: TorchJob) -> Step:
    """Shard the model over the one rank."""
    from torch.distributed.fsdp import fully_shard

    model = net(job).to(job.device)
    fully_shard(model)
    job.replicated([])
    images, labels = batch(job)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> torch.Tensor:
        loss = F.cross_entropy(model(images), labels)
        job.backward(loss, optimizer)
        return loss

    return step


def _with_fault(job: TorchJob, fault: Callable[[], None]) -> Step:
    step, done = trained(job), 0

    def faulty() -> torch.Tensor:
        nonlocal done
        done += 1
        if done == FAULT_AT:
            fault()
        return step()

    return faulty


def out_of_memory(job: TorchJob) -> Step:
    """Take all memory of the GPU."""
    held: list[torch.Tensor] = []

    def take() -> None:
        while True:
            held.append(torch.empty(2**32, dtype=torch.uint8, device=job.device))

    return _with_fault(job, take)


def killed(job: TorchJob) -> Step:
    """Die of SIGKILL."""
    return _with_fault(job, lambda: os.kill(os.getpid(), signal.SIGKILL))


def hangs(job: TorchJob) -> Step:
    """Keep the GPU busy for about 70 s of an H100: longer than the case's time."""
    return _with_fault(job, lambda: torch.cuda._sleep(2**37))


def bad_index(job: TorchJob) -> Step:
    """Fail an assertion on the device."""

    def read() -> None:
        torch.zeros(4, device=job.device)[torch.tensor([99], device=job.device)]

    return _with_fault(job, read)
