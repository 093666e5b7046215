"""ResNet-50 V1.5 in Paddle, with the model and the schedule of NVIDIA's container."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import paddle
from paddle import nn
from paddle.nn import functional as F

from ..paddle_batches import (
    batches_of,
    layout_of,
    optimizer_options,
    set_flags,
    spatial_axes,
    synthetic,
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

    from pytest_dlperf.worker.frameworks.paddle.job import PaddleJob


class ConvBN(nn.Sequential):  # type: ignore[misc]  # paddle is Any here
    """Convolution and batch normalisation."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int = 1, *, layout: str
    ) -> None:
        # Paddle calls it fan_in; the number is fan-out.
        weights = nn.initializer.KaimingNormal(fan_in=outputs * kernel**2)
        super().__init__(
            nn.Conv2D(
                inputs,
                outputs,
                kernel,
                stride,
                padding=kernel // 2,
                weight_attr=weights,
                bias_attr=False,
                data_format=layout,
            ),
            nn.BatchNorm2D(outputs, data_format=layout),
        )


class Bottleneck(nn.Layer):  # type: ignore[misc]
    """1x1, 3x3 and 1x1 convolutions around a shortcut; V1.5 has the stride in the 3x3."""

    def __init__(self, inputs: int, width: int, stride: int, layout: str) -> None:
        super().__init__()
        outputs = 4 * width
        self.reduce = ConvBN(inputs, width, 1, layout=layout)
        self.spatial = ConvBN(width, width, 3, stride, layout=layout)
        self.expand = ConvBN(width, outputs, 1, layout=layout)
        self.shortcut = (
            ConvBN(inputs, outputs, 1, stride, layout=layout)
            if stride != 1 or inputs != outputs
            else nn.Identity()
        )

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """Return ``relu(shortcut + residual)``."""
        y = F.relu(self.reduce(x))
        y = F.relu(self.spatial(y))
        return F.relu(self.expand(y) + self.shortcut(x))


class ResNet50(nn.Layer):  # type: ignore[misc]
    """Stages of bottlenecks; ``width`` is that of the first, 64 in the paper."""

    def __init__(
        self,
        width: int,
        classes: int,
        depths: tuple[int, ...] = DEPTHS,
        *,
        layout: str = "NCHW",
    ) -> None:
        super().__init__()
        self.stem = ConvBN(3, width, 7, stride=2, layout=layout)
        self.pool = nn.MaxPool2D(3, stride=2, padding=1, data_format=layout)
        self.spatial_axes = spatial_axes(layout)
        blocks, inputs = [], width
        for stage, depth in enumerate(depths):
            for index in range(depth):
                stride = 2 if stage > 0 and index == 0 else 1
                blocks.append(Bottleneck(inputs, width << stage, stride, layout))
                inputs = 4 * (width << stage)
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(inputs, classes)

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        """Return the logits of ``images``."""
        x = self.pool(F.relu(self.stem(images)))
        return self.classifier(self.blocks(x).mean(axis=self.spatial_axes))


def parameter_groups(model: nn.Layer) -> list[dict[str, Any]]:
    """Return parameters with weight decay, and those of batch normalisation without.

    The bias of the classifier decays: NVIDIA's script leaves out batch normalisation only.
    """
    norms = [m for m in model.sublayers() if isinstance(m, nn.BatchNorm2D)]
    spared = [p for norm in norms for p in (norm.weight, norm.bias)]
    spared_ids = {id(p) for p in spared}
    trained = [p for p in model.parameters() if not p.stop_gradient]
    return [
        {
            "params": [p for p in trained if id(p) not in spared_ids],
            "weight_decay": WEIGHT_DECAY,
        },
        {"params": spared},
    ]


def feed(job: PaddleJob, size: Size) -> Iterator[tuple[paddle.Tensor, paddle.Tensor]]:
    """Return the batches; without real data one and the same for ever, as the loss must fall."""
    if job.data is not None:
        # Needs Pillow, which training on synthetic data does not.
        from .data import Images

        dataset = Images(
            job.data, classes=size.classes, image=size.image, seed=f"{job.seed} {job.rank}"
        )
        return batches_of(job, dataset)
    batch, random = job.batch_size_per_device, job.generator()
    images = synthetic(job, random.standard_normal((batch, 3, size.image, size.image), "float32"))
    labels = paddle.to_tensor(random.integers(size.classes, size=batch))
    return itertools.repeat((images, labels))


def build(job: PaddleJob) -> Callable[[], paddle.Tensor]:
    """Return one training iteration; option ``tuned``: see ``paddle_batches.is_tuned``."""
    size = SIZES[job.size]
    set_flags(job)
    model = ResNet50(size.width, size.classes, size.depths, layout=layout_of(job))
    optimizer = paddle.optimizer.Momentum(
        0.0,
        MOMENTUM,
        parameters=parameter_groups(model),
        weight_decay=0.0,
        **optimizer_options(job),
    )
    model = job.data_parallel(model)

    batch, batches = job.batch_size_per_device, feed(job, size)
    iteration = 0

    def step() -> paddle.Tensor:
        nonlocal iteration
        iteration += 1
        optimizer.set_lr(learning_rate(size, batch * job.world_size, iteration))
        images, labels = next(batches)
        with job.autocast():
            loss = F.cross_entropy(model(images), labels, label_smoothing=LABEL_SMOOTHING)
        job.backward(loss, optimizer)
        return loss

    return step
