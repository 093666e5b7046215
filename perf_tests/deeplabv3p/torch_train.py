"""DeepLabV3+ over ResNet50_vd on Cityscapes-like crops, as PaddleSeg's benchmark trains it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional as F

from ..torch_batches import (
    batches_of,
    memory_format,
    optimizer_options,
    replica_options,
    synthetic_dtype,
)
from .recipe import (
    ASPP_RATIOS,
    CLASSES,
    DILATIONS,
    IGNORED,
    MOMENTUM,
    POLY_ITERATIONS,
    POLY_POWER,
    PURE_FP16_SCALE,
    SIZES,
    WEIGHT_DECAY,
    Size,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_dlperf.worker.frameworks.torch.job import TorchJob


class ConvBN(nn.Sequential):  # type: ignore[misc]  # torch is Any here
    """Convolution and batch normalisation; output and input are equally large at stride 1."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        *,
        stride: int = 1,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = False,
    ) -> None:
        padding = dilation * (kernel // 2)
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, padding, dilation, groups, bias),
            nn.BatchNorm2d(outputs),
        )
        nn.init.kaiming_normal_(self[0].weight, mode="fan_out", nonlinearity="relu")


def separable(inputs: int, outputs: int, dilation: int = 1) -> nn.Sequential:
    """Return a 3x3 convolution per channel and a 1x1 over channels; ReLU after the second."""
    return nn.Sequential(
        ConvBN(inputs, inputs, 3, dilation=dilation, groups=inputs, bias=True),
        ConvBN(inputs, outputs, 1, bias=True),
        nn.ReLU(inplace=True),
    )


class Bottleneck(nn.Module):  # type: ignore[misc]
    """A bottleneck of ResNet-D: a shortcut with stride pools first and convolves then."""

    def __init__(self, inputs: int, width: int, stride: int, dilation: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.reduce = ConvBN(inputs, width, 1)
        self.spatial = ConvBN(width, width, 3, stride=stride, dilation=dilation)
        self.expand = ConvBN(width, outputs, 1)
        self.shortcut = nn.Sequential()
        if stride != 1:
            self.shortcut.append(nn.AvgPool2d(2, 2, ceil_mode=True))
        if inputs != outputs:
            self.shortcut.append(ConvBN(inputs, outputs, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``relu(shortcut + residual)``."""
        y = F.relu(self.reduce(x), inplace=True)
        y = F.relu(self.spatial(y), inplace=True)
        return F.relu(self.expand(y) + self.shortcut(x), inplace=True)


class ResNet50vd(nn.Module):  # type: ignore[misc]
    """ResNet50_vd at output stride 8: the last two stages are dilated instead of strided."""

    def __init__(self, width: int, dilations: tuple[tuple[int, ...], ...] = DILATIONS) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            ConvBN(3, width // 2, 3, stride=2),
            nn.ReLU(inplace=True),
            ConvBN(width // 2, width // 2, 3),
            nn.ReLU(inplace=True),
            ConvBN(width // 2, width, 3),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        self.stages = nn.ModuleList()
        inputs = width
        for stage, rates in enumerate(dilations):
            blocks = nn.Sequential()
            for index, dilation in enumerate(rates):
                stride = 2 if stage == 1 and index == 0 else 1
                blocks.append(Bottleneck(inputs, width << stage, stride, dilation))
                inputs = 4 * (width << stage)
            self.stages.append(blocks)
        self.outputs = inputs

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the outputs of the first and the last stage (backbone_indices 0 and 3)."""
        x = low_level = self.stages[0](self.stem(images))
        for stage in self.stages[1:]:
            x = stage(x)
        return low_level, x


class ASPP(nn.Module):  # type: ignore[misc]
    """Atrous spatial pyramid pooling: a branch for every ratio, and one for the whole image."""

    def __init__(self, inputs: int, outputs: int, ratios: tuple[int, ...]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(
            nn.Sequential(ConvBN(inputs, outputs, 1, bias=True), nn.ReLU(inplace=True))
            if ratio == 1
            else separable(inputs, outputs, ratio)
            for ratio in ratios
        )
        self.whole = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), ConvBN(inputs, outputs, 1), nn.ReLU(inplace=True)
        )
        self.project = nn.Sequential(
            ConvBN(outputs * (len(ratios) + 1), outputs, 1, bias=True),
            nn.ReLU(inplace=True),
            nn.Dropout(0.1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the branches side by side, projected."""
        branches = [branch(x) for branch in self.branches]
        branches.append(self.whole(x).expand_as(branches[0]))
        return self.project(torch.cat(branches, dim=1))


class DeepLabV3P(nn.Module):  # type: ignore[misc]
    """The trunk, ASPP on its last stage, and a decoder that adds the first stage."""

    def __init__(
        self,
        width: int,
        dilations: tuple[tuple[int, ...], ...] = DILATIONS,
        ratios: tuple[int, ...] = ASPP_RATIOS,
    ) -> None:
        super().__init__()
        head, low_level = 4 * width, 3 * width // 4
        self.trunk = ResNet50vd(width, dilations)
        self.aspp = ASPP(self.trunk.outputs, head, ratios)
        self.low_level = nn.Sequential(
            ConvBN(4 * width, low_level, 1, bias=True), nn.ReLU(inplace=True)
        )
        self.decoder = nn.Sequential(
            separable(head + low_level, head), separable(head, head), nn.Conv2d(head, CLASSES, 1)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits for every pixel, in float32 where the model is in float16."""
        low_level, x = self.trunk(images)
        low_level = self.low_level(low_level)
        x = upsample(self.aspp(x), low_level.shape[2:])
        x = self.decoder(torch.cat([x, low_level], dim=1))
        return upsample(x.float(), images.shape[2:])


def upsample(x: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Return ``x`` bilinearly resized."""
    return F.interpolate(x, shape, mode="bilinear", align_corners=False)


def street(job: TorchJob, size: Size) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images and labels: patches of one class, in its colour, under noise; a border.

    Labels of single pixels at random could not be learnt at output stride 8.
    """
    random: dict[str, Any] = {"generator": job.generator(), "device": job.device}
    batch, patch = job.batch_size_per_device, size.height // 8
    colours = torch.randn(CLASSES, 3, **random)
    labels = torch.randint(CLASSES, (batch, size.height // patch, size.breadth // patch), **random)
    labels = labels.repeat_interleave(patch, dim=1).repeat_interleave(patch, dim=2)
    images = colours[labels].permute(0, 3, 1, 2).contiguous()
    images = images + 0.5 * torch.randn(images.shape, **random)
    labels[:, :, : patch // 2] = IGNORED
    return images.to(dtype=synthetic_dtype(job), memory_format=memory_format(job)), labels


def feed(job: TorchJob, size: Size) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Return the batches; without real data one and the same for ever, as the loss must fall."""
    if job.data is not None:
        # Needs Pillow, which training on synthetic data does not.
        from ..cityscapes import Streets

        seed = f"{job.seed} {job.rank}"
        dataset = Streets(
            job.data, "deeplabv3p", height=size.height, breadth=size.breadth, seed=seed
        )
        return batches_of(job, dataset, memory_format=memory_format(job))
    return itertools.repeat(street(job, size))


def build(job: TorchJob) -> Callable[[], torch.Tensor]:
    """Return one training iteration; option ``tuned``: see ``torch_batches.is_tuned``."""
    size = SIZES[job.size]
    torch.backends.cudnn.benchmark = True
    model = DeepLabV3P(size.width, size.dilations, size.ratios)
    model = model.to(memory_format=memory_format(job))
    if job.world_size > 1 and job.device.type == "cuda":
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    model = job.data_parallel(model, **replica_options(job))

    # SGD on gradients that are `scale` times too large is SGD on true ones when the learning
    # rate is that much smaller and the decay that much larger.
    scale = PURE_FP16_SCALE if job.precision == "pure_fp16" else 1.0
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=0.0,
        momentum=MOMENTUM,
        weight_decay=WEIGHT_DECAY * scale,
        **optimizer_options(job),
    )
    batches = feed(job, size)
    iteration = 0

    def step() -> torch.Tensor:
        nonlocal iteration
        poly = max(0.0, 1 - iteration / POLY_ITERATIONS) ** POLY_POWER
        for group in optimizer.param_groups:
            group["lr"] = size.learning_rate * poly / scale
        iteration += 1
        images, labels = next(batches)
        with job.autocast():
            loss = F.cross_entropy(model(images), labels, ignore_index=IGNORED)
        job.backward(loss * scale, optimizer)
        return loss

    return step
