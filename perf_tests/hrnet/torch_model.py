"""HRNet for segmentation in PyTorch: branches of several resolutions, fused again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional as F

from .recipe import CLASSES, Size, Stage

if TYPE_CHECKING:
    from collections.abc import Sequence


class ConvBN(nn.Sequential):  # type: ignore[misc]  # torch is Any here
    """Convolution and batch normalisation, then ReLU where it is asked for."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, relu: bool = False
    ) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
            nn.BatchNorm2d(outputs),
            *([nn.ReLU(inplace=True)] if relu else []),
        )
        nn.init.kaiming_normal_(self[0].weight, mode="fan_out", nonlinearity="relu")


class Residual(nn.Module):  # type: ignore[misc]
    """``relu(shortcut + residual)``; the shortcut is projected where the widths differ."""

    def __init__(self, residual: nn.Module, inputs: int, outputs: int) -> None:
        super().__init__()
        self.residual = residual
        self.shortcut = nn.Identity() if inputs == outputs else ConvBN(inputs, outputs, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's output, as large as its input."""
        return F.relu(self.residual(x) + self.shortcut(x), inplace=True)


def bottleneck(inputs: int, width: int) -> Residual:
    """Return a bottleneck block, four times as wide as ``width`` at its end."""
    residual = nn.Sequential(
        ConvBN(inputs, width, 1, relu=True),
        ConvBN(width, width, 3, relu=True),
        ConvBN(width, 4 * width, 1),
    )
    return Residual(residual, inputs, 4 * width)


def basic(width: int) -> Residual:
    """Return a basic block, two 3x3 convolutions."""
    residual = nn.Sequential(ConvBN(width, width, 3, relu=True), ConvBN(width, width, 3))
    return Residual(residual, width, width)


def path(widths: Sequence[int], source: int, target: int) -> nn.Module:
    """Return the layers from branch ``source`` to ``target``, but for the upsampling."""
    if source == target:
        return nn.Identity()
    if source > target:
        return ConvBN(widths[source], widths[target], 1)
    strided = [
        ConvBN(widths[source], widths[source], 3, stride=2, relu=True)
        for _ in range(target - source - 1)
    ]
    return nn.Sequential(*strided, ConvBN(widths[source], widths[target], 3, stride=2))


class MultiResolutionModule(nn.Module):  # type: ignore[misc]
    """The paper's multi-resolution module: blocks in each branch, then a fusion of all."""

    def __init__(self, blocks: int, widths: Sequence[int]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(
            nn.Sequential(*(basic(width) for _ in range(blocks))) for width in widths
        )
        branches = range(len(widths))
        self.paths = nn.ModuleList(
            nn.ModuleList(path(widths, source, target) for source in branches)
            for target in branches
        )

    def forward(self, xs: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return every branch with what the others add to it."""
        xs = [branch(x) for branch, x in zip(self.branches, xs, strict=True)]
        return [self._fused(xs, target) for target in range(len(xs))]

    def _fused(self, xs: list[torch.Tensor], target: int) -> torch.Tensor:
        total = xs[target]
        for source, layers in enumerate(self.paths[target]):
            if source != target:
                added = layers(xs[source])
                total = total + (upsample(added, total) if source > target else added)
        return F.relu(total, inplace=True)


class StageLayers(nn.Module):  # type: ignore[misc]
    """A transition to one more branch, then the modules of the stage."""

    def __init__(self, inputs: Sequence[int], stage: Stage) -> None:
        super().__init__()
        widths = stage.widths
        self.transition = nn.ModuleList(
            nn.Identity() if before == width else ConvBN(before, width, 3, relu=True)
            for before, width in zip(inputs, widths[:-1], strict=True)
        )
        self.transition.append(ConvBN(inputs[-1], widths[-1], 3, stride=2, relu=True))
        self.resolution_modules = nn.Sequential(
            *(MultiResolutionModule(stage.blocks, widths) for _ in range(stage.modules))
        )

    def forward(self, xs: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return the branches, one more than came in."""
        xs = [*xs, xs[-1]]
        xs = [layer(x) for layer, x in zip(self.transition, xs, strict=True)]
        fused: list[torch.Tensor] = self.resolution_modules(xs)
        return fused


class HRNet(nn.Module):  # type: ignore[misc]
    """The backbone, and a fully convolutional head on all its branches (HRNetV2)."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        width = size.width
        self.stem = nn.Sequential(
            ConvBN(3, width, 3, stride=2, relu=True), ConvBN(width, width, 3, stride=2, relu=True)
        )
        inputs = [width] + [4 * width] * size.bottlenecks
        self.first = nn.Sequential(*(bottleneck(before, width) for before in inputs[:-1]))
        before: Sequence[int] = inputs[-1:]
        self.stages = nn.Sequential()
        for stage in size.stages:
            self.stages.append(StageLayers(before, stage))
            before = stage.widths
        self.head = nn.Sequential(
            ConvBN(sum(before), sum(before), 1, relu=True), nn.Conv2d(sum(before), CLASSES, 1)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits for every pixel, in float32 where the model is in float16."""
        xs = self.stages([self.first(self.stem(images))])
        x = torch.cat([xs[0], *(upsample(x, xs[0]) for x in xs[1:])], dim=1)
        return upsample(self.head(x).float(), images)


def upsample(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return ``x`` bilinearly resized to the height and width of ``like``."""
    return F.interpolate(x, like.shape[2:], mode="bilinear", align_corners=False)
