"""HRNet-W18 with an FCN head on Cityscapes-like crops, as PaddleSeg's benchmark trains it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional as F

from ..torch_batches import batches_of
from .recipe import CLASSES, IGNORED, MOMENTUM, SIZES, WEIGHT_DECAY, Size, rate
from .torch_model import HRNet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_dlperf.worker.frameworks.torch.job import TorchJob


def street(job: TorchJob, size: Size) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images and labels: patches of one class, in its colour, under noise; a border.

    Labels of single pixels at random could not be learnt at an output stride of 4.
    """
    random: dict[str, Any] = {"generator": job.generator(), "device": job.device}
    batch, patch = job.batch_size_per_device, size.height // 8
    colours = torch.randn(CLASSES, 3, **random)
    labels = torch.randint(CLASSES, (batch, size.height // patch, size.breadth // patch), **random)
    labels = labels.repeat_interleave(patch, dim=1).repeat_interleave(patch, dim=2)
    images = colours[labels].permute(0, 3, 1, 2).contiguous()
    images = images + 0.5 * torch.randn(images.shape, **random)
    labels[:, :, : patch // 2] = IGNORED
    return images.to(job.dtype), labels


def feed(job: TorchJob, size: Size) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Return the batches; without real data one and the same for ever, as the loss must fall."""
    if job.data is not None:
        # Needs Pillow, which training on synthetic data does not.
        from ..cityscapes import Streets

        seed = f"{job.seed} {job.rank}"
        dataset = Streets(job.data, "hrnet", height=size.height, breadth=size.breadth, seed=seed)
        return batches_of(job, dataset)
    return itertools.repeat(street(job, size))


def build(job: TorchJob) -> Callable[[], torch.Tensor]:
    """Return one training iteration."""
    size = SIZES[job.size]
    torch.backends.cudnn.benchmark = True
    model = HRNet(size)
    if job.world_size > 1 and job.device.type == "cuda":
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    model = job.data_parallel(model)

    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.0, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY
    )
    batches = feed(job, size)
    iteration = 0

    def step() -> torch.Tensor:
        nonlocal iteration
        for group in optimizer.param_groups:
            group["lr"] = rate(size.learning_rate, iteration)
        iteration += 1
        images, labels = next(batches)
        with job.autocast():
            loss = F.cross_entropy(model(images), labels, ignore_index=IGNORED)
        job.backward(loss, optimizer)
        return loss

    return step
