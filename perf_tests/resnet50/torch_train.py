"""ResNet-50 V1.5 on ImageNet-like images, trained as NVIDIA's container trains it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional as F

from ..torch_batches import (
    batches_of,
    is_tuned,
    optimizer_options,
    replica_options,
    synthetic_dtype,
)
from .recipe import (
    DEPTHS,
    LABEL_SMOOTHING,
    MOMENTUM,
    SIZES,
    WEIGHT_DECAY,
    Size,
    learning_rate,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_dlperf.worker.frameworks.torch.job import TorchJob


class ConvBN(nn.Sequential):  # type: ignore[misc]  # torch is Any here
    """Convolution and batch normalisation."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False),
            nn.BatchNorm2d(outputs),
        )
        nn.init.kaiming_normal_(self[0].weight, mode="fan_out", nonlinearity="relu")


class Bottleneck(nn.Module):  # type: ignore[misc]
    """1x1, 3x3 and 1x1 convolutions around a shortcut; V1.5 has the stride in the 3x3."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.reduce = ConvBN(inputs, width, 1)
        self.spatial = ConvBN(width, width, 3, stride)
        self.expand = ConvBN(width, outputs, 1)
        self.shortcut = (
            ConvBN(inputs, outputs, 1, stride)
            if stride != 1 or inputs != outputs
            else nn.Identity()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``relu(shortcut + residual)``."""
        y = F.relu(self.reduce(x), inplace=True)
        y = F.relu(self.spatial(y), inplace=True)
        return F.relu(self.expand(y) + self.shortcut(x), inplace=True)


class ResNet50(nn.Module):  # type: ignore[misc]
    """Stages of bottlenecks; ``width`` is that of the first, 64 in the paper."""

    def __init__(self, width: int, classes: int, depths: tuple[int, ...] = DEPTHS) -> None:
        super().__init__()
        self.stem = ConvBN(3, width, 7, stride=2)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        blocks, inputs = [], width
        for stage, depth in enumerate(depths):
            for index in range(depth):
                stride = 2 if stage > 0 and index == 0 else 1
                blocks.append(Bottleneck(inputs, width << stage, stride))
                inputs = 4 * (width << stage)
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(inputs, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits of ``images``."""
        x = self.pool(F.relu(self.stem(images), inplace=True))
        return self.classifier(self.blocks(x).mean(dim=(2, 3)))


def parameter_groups(model: nn.Module) -> list[dict[str, Any]]:
    """Return parameters with weight decay, and those of batch normalisation without.

    The bias of the classifier decays: NVIDIA's script leaves out batch normalisation only.
    """
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    spared = [p for norm in norms for p in norm.parameters()]
    spared_ids = {id(p) for p in spared}
    return [
        {
            "params": [p for p in model.parameters() if id(p) not in spared_ids],
            "weight_decay": WEIGHT_DECAY,
        },
        {"params": spared, "weight_decay": 0.0},
    ]


def decodes_on_gpu(job: TorchJob) -> bool:
    """Return whether real images are decoded on the GPU unless the case says otherwise."""
    return is_tuned(job) and job.device.type == "cuda"


def feed(job: TorchJob, size: Size) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Return the batches; without real data one and the same for ever, as the loss must fall."""
    decoder = str(job.options.get("decoder", "nvimgcodec" if decodes_on_gpu(job) else "pillow"))
    if decoder not in {"nvimgcodec", "pillow"}:
        raise ValueError(f'decoder={decoder!r}: give "pillow" or "nvimgcodec"')
    if job.data is not None and decoder == "nvimgcodec":
        from ..data_folder import IMAGENET_MEAN, IMAGENET_STD
        from ..torch_decoder import decoded_batches
        from . import folders

        return decoded_batches(
            job,
            folders.read_folder(folders.find_train(job.data), size.classes),
            side=size.image,
            random_box=folders.random_box,
            mean=IMAGENET_MEAN,
            std=IMAGENET_STD,
            memory_format=torch.channels_last,
        )
    if job.data is not None:
        # Needs Pillow, which training on synthetic data does not.
        from .data import Images

        dataset = Images(
            job.data, classes=size.classes, image=size.image, seed=f"{job.seed} {job.rank}"
        )
        return batches_of(job, dataset, memory_format=torch.channels_last)
    batch, random = job.batch_size_per_device, {"generator": job.generator(), "device": job.device}
    images = torch.randn(batch, 3, size.image, size.image, **random)
    images = images.to(dtype=synthetic_dtype(job), memory_format=torch.channels_last)
    labels = torch.randint(size.classes, (batch,), **random)
    return itertools.repeat((images, labels))


def build(job: TorchJob) -> Callable[[], torch.Tensor]:
    """Return one training iteration.

    Options: ``tuned`` (the fused optimizer, gradients in the buckets that are reduced,
    synthetic images in the type that is computed in, real ones decoded on the GPU), ``compile``,
    and with it ``cuda_graphs``; ``decoder`` of real images: ``pillow`` or ``nvimgcodec``.
    """
    compiled = bool(job.options.get("compile"))
    if job.options.get("cuda_graphs") and not compiled:
        raise ValueError("cuda_graphs are made by torch.compile here: give compile as well")
    size = SIZES[job.size]
    torch.backends.cudnn.benchmark = True
    model = ResNet50(size.width, size.classes, size.depths).to(memory_format=torch.channels_last)
    optimizer_groups = parameter_groups(model)
    model = job.data_parallel(model, **replica_options(job))
    if compiled:
        mode = "reduce-overhead" if job.options.get("cuda_graphs") else "default"
        model = torch.compile(model, mode=mode)
    optimizer = torch.optim.SGD(
        optimizer_groups, lr=0.0, momentum=MOMENTUM, **optimizer_options(job)
    )

    batch, batches = job.batch_size_per_device, feed(job, size)
    iteration = 0

    def step() -> torch.Tensor:
        nonlocal iteration
        iteration += 1
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(size, batch * job.world_size, iteration)
        images, labels = next(batches)
        with job.autocast():
            loss = F.cross_entropy(model(images), labels, label_smoothing=LABEL_SMOOTHING)
        job.backward(loss, optimizer)
        return loss

    return step
