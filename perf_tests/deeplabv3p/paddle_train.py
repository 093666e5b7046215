"""DeepLabV3+ over ResNet50_vd in Paddle, as PaddleSeg's benchmark trains it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F

from ..paddle_batches import (
    in_layout,
    layout_of,
    optimizer_options,
    set_flags,
    spatial_axes,
    synthetic,
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

    from pytest_dlperf.worker.frameworks.paddle.job import PaddleJob


class ConvBN(nn.Sequential):  # type: ignore[misc]  # paddle is Any here
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
        layout: str,
    ) -> None:
        # Paddle calls it fan_in; the number is fan-out.
        weights = nn.initializer.KaimingNormal(fan_in=outputs * kernel**2)
        super().__init__(
            nn.Conv2D(
                inputs,
                outputs,
                kernel,
                stride,
                padding=dilation * (kernel // 2),
                dilation=dilation,
                groups=groups,
                weight_attr=weights,
                bias_attr=None if bias else False,
                data_format=layout,
            ),
            nn.BatchNorm2D(outputs, data_format=layout),
        )


def separable(inputs: int, outputs: int, dilation: int = 1, *, layout: str) -> nn.Sequential:
    """Return a 3x3 convolution per channel and a 1x1 over channels; ReLU after the second."""
    return nn.Sequential(
        ConvBN(inputs, inputs, 3, dilation=dilation, groups=inputs, bias=True, layout=layout),
        ConvBN(inputs, outputs, 1, bias=True, layout=layout),
        nn.ReLU(),
    )


class Bottleneck(nn.Layer):  # type: ignore[misc]
    """A bottleneck of ResNet-D: a shortcut with stride pools first and convolves then."""

    def __init__(self, inputs: int, width: int, stride: int, dilation: int, layout: str) -> None:
        super().__init__()
        outputs = 4 * width
        self.reduce = ConvBN(inputs, width, 1, layout=layout)
        self.spatial = ConvBN(width, width, 3, stride=stride, dilation=dilation, layout=layout)
        self.expand = ConvBN(width, outputs, 1, layout=layout)
        shortcut: list[nn.Layer] = []
        if stride != 1:
            shortcut.append(nn.AvgPool2D(2, 2, ceil_mode=True, data_format=layout))
        if inputs != outputs:
            shortcut.append(ConvBN(inputs, outputs, 1, layout=layout))
        self.shortcut = nn.Sequential(*shortcut)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """Return ``relu(shortcut + residual)``."""
        y = F.relu(self.reduce(x))
        y = F.relu(self.spatial(y))
        return F.relu(self.expand(y) + self.shortcut(x))


class ResNet50vd(nn.Layer):  # type: ignore[misc]
    """ResNet50_vd at output stride 8: the last two stages are dilated instead of strided."""

    def __init__(
        self, width: int, dilations: tuple[tuple[int, ...], ...] = DILATIONS, *, layout: str
    ) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            ConvBN(3, width // 2, 3, stride=2, layout=layout),
            nn.ReLU(),
            ConvBN(width // 2, width // 2, 3, layout=layout),
            nn.ReLU(),
            ConvBN(width // 2, width, 3, layout=layout),
            nn.ReLU(),
            nn.MaxPool2D(3, stride=2, padding=1, data_format=layout),
        )
        self.stages = nn.LayerList()
        inputs = width
        for stage, rates in enumerate(dilations):
            blocks = []
            for index, dilation in enumerate(rates):
                stride = 2 if stage == 1 and index == 0 else 1
                blocks.append(Bottleneck(inputs, width << stage, stride, dilation, layout))
                inputs = 4 * (width << stage)
            self.stages.append(nn.Sequential(*blocks))
        self.outputs = inputs

    def forward(self, images: paddle.Tensor) -> tuple[paddle.Tensor, paddle.Tensor]:
        """Return the outputs of the first and the last stage (backbone_indices 0 and 3)."""
        x = low_level = self.stages[0](self.stem(images))
        for stage in self.stages[1:]:
            x = stage(x)
        return low_level, x


class ASPP(nn.Layer):  # type: ignore[misc]
    """Atrous spatial pyramid pooling: a branch for every ratio, and one for the whole image."""

    def __init__(self, inputs: int, outputs: int, ratios: tuple[int, ...], layout: str) -> None:
        super().__init__()
        self.channels = channel_axis(layout)
        self.branches = nn.LayerList(
            [
                nn.Sequential(ConvBN(inputs, outputs, 1, bias=True, layout=layout), nn.ReLU())
                if ratio == 1
                else separable(inputs, outputs, ratio, layout=layout)
                for ratio in ratios
            ]
        )
        self.whole = nn.Sequential(
            nn.AdaptiveAvgPool2D(1, data_format=layout),
            ConvBN(inputs, outputs, 1, layout=layout),
            nn.ReLU(),
        )
        self.project = nn.Sequential(
            ConvBN(outputs * (len(ratios) + 1), outputs, 1, bias=True, layout=layout),
            nn.ReLU(),
            nn.Dropout(0.1),
        )

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """Return the branches side by side, projected."""
        branches = [branch(x) for branch in self.branches]
        branches.append(self.whole(x).expand_as(branches[0]))
        return self.project(paddle.concat(branches, axis=self.channels))


class DeepLabV3P(nn.Layer):  # type: ignore[misc]
    """The trunk, ASPP on its last stage, and a decoder that adds the first stage."""

    def __init__(
        self,
        width: int,
        dilations: tuple[tuple[int, ...], ...] = DILATIONS,
        ratios: tuple[int, ...] = ASPP_RATIOS,
        *,
        layout: str = "NCHW",
    ) -> None:
        super().__init__()
        self.layout = layout
        head, low_level = 4 * width, 3 * width // 4
        self.trunk = ResNet50vd(width, dilations, layout=layout)
        self.aspp = ASPP(self.trunk.outputs, head, ratios, layout)
        self.low_level = nn.Sequential(
            ConvBN(4 * width, low_level, 1, bias=True, layout=layout), nn.ReLU()
        )
        self.decoder = nn.Sequential(
            separable(head + low_level, head, layout=layout),
            separable(head, head, layout=layout),
            nn.Conv2D(head, CLASSES, 1, data_format=layout),
        )

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        """Return logits for every pixel, in float32 where the model is in float16."""
        low_level, x = self.trunk(images)
        low_level = self.low_level(low_level)
        x = upsample(self.aspp(x), low_level, self.layout)
        x = self.decoder(paddle.concat([x, low_level], axis=channel_axis(self.layout)))
        return upsample(x.astype("float32"), images, self.layout)


def channel_axis(layout: str) -> int:
    """Return the axis of the channels."""
    return layout.index("C")


def upsample(x: paddle.Tensor, like: paddle.Tensor, layout: str) -> paddle.Tensor:
    """Return ``x`` bilinearly resized to the height and width of ``like``."""
    shape = [like.shape[axis] for axis in spatial_axes(layout)]
    return F.interpolate(x, shape, mode="bilinear", align_corners=False, data_format=layout)


def street(job: PaddleJob, size: Size) -> tuple[paddle.Tensor, paddle.Tensor]:
    """Return images and labels: patches of one class, in its colour, under noise; a border.

    Labels of single pixels at random could not be learnt at output stride 8.
    """
    random: np.random.Generator = job.generator()
    batch, patch = job.batch_size_per_device, size.height // 8
    colours = random.standard_normal((CLASSES, 3), "float32")
    labels = random.integers(CLASSES, size=(batch, size.height // patch, size.breadth // patch))
    labels = labels.repeat(patch, axis=1).repeat(patch, axis=2)
    images = colours[labels].transpose(0, 3, 1, 2)
    images = images + 0.5 * random.standard_normal(images.shape, "float32")
    labels[:, :, : patch // 2] = IGNORED
    return synthetic(job, np.ascontiguousarray(images)), paddle.to_tensor(labels)


def feed(job: PaddleJob, size: Size) -> Iterator[tuple[paddle.Tensor, paddle.Tensor]]:
    """Return the batches; without real data one and the same for ever, as the loss must fall."""
    if job.data is not None:
        # Needs Pillow, which training on synthetic data does not.
        from ..cityscapes import Streets

        seed = f"{job.seed} {job.rank}"
        dataset = Streets(
            job.data, "deeplabv3p", height=size.height, breadth=size.breadth, seed=seed
        )
        batches = job.batches(job.loader(dataset))
        return ((in_layout(job, images.astype(job.dtype)), labels) for images, labels in batches)
    return itertools.repeat(street(job, size))


def build(job: PaddleJob) -> Callable[[], paddle.Tensor]:
    """Return one training iteration; option ``tuned``: see ``paddle_batches.is_tuned``."""
    size = SIZES[job.size]
    set_flags(job)
    model = DeepLabV3P(size.width, size.dilations, size.ratios, layout=layout_of(job))
    if job.world_size > 1 and job.device.startswith("gpu"):
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    model = job.data_parallel(model)

    # SGD on gradients that are `scale` times too large is SGD on true ones when the learning
    # rate is that much smaller and the decay that much larger.
    scale = PURE_FP16_SCALE if job.precision == "pure_fp16" else 1.0
    optimizer = paddle.optimizer.Momentum(
        0.0,
        MOMENTUM,
        parameters=model.parameters(),
        weight_decay=WEIGHT_DECAY * scale,
        **optimizer_options(job),
    )
    batches, classes = feed(job, size), channel_axis(layout_of(job))
    iteration = 0

    def step() -> paddle.Tensor:
        nonlocal iteration
        poly = max(0.0, 1 - iteration / POLY_ITERATIONS) ** POLY_POWER
        optimizer.set_lr(size.learning_rate * poly / scale)
        iteration += 1
        images, labels = next(batches)
        with job.autocast():
            loss = F.cross_entropy(model(images), labels, axis=classes, ignore_index=IGNORED)
        job.backward(loss * scale, optimizer)
        return loss

    return step
