"""TSM in Paddle: ResNet-50 with temporal shift on clips of 8 frames."""

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
    CLIP_NORM,
    DEPTHS,
    DROPOUT,
    MOMENTUM,
    SEGMENTS,
    SHIFT_DIV,
    SIZES,
    WEIGHT_DECAY,
    Size,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_dlperf.worker.frameworks.paddle.job import PaddleJob


class ConvBN(nn.Sequential):  # type: ignore[misc]  # paddle is Any here
    """Convolution and batch normalisation."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int = 1, *, layout: str
    ) -> None:
        # Paddle calls it fan_in; the number is fan-out, as in the authors' code.
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


class ShiftBottleneck(nn.Layer):  # type: ignore[misc]
    """A bottleneck whose residual branch sees shifted frames (``blockres``)."""

    def __init__(self, inputs: int, width: int, stride: int, layout: str) -> None:
        super().__init__()
        outputs = 4 * width
        self.layout = layout
        self.reduce = ConvBN(inputs, width, 1, layout=layout)
        self.spatial = ConvBN(width, width, 3, stride, layout=layout)
        self.expand = ConvBN(width, outputs, 1, layout=layout)
        self.shortcut = (
            ConvBN(inputs, outputs, 1, stride, layout=layout)
            if stride != 1 or inputs != outputs
            else nn.Identity()
        )

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """Return ``relu(shortcut + residual)``; the shortcut is not shifted."""
        y = F.temporal_shift(x, SEGMENTS, 1 / SHIFT_DIV, data_format=self.layout)
        y = F.relu(self.reduce(y))
        y = F.relu(self.spatial(y))
        return F.relu(self.expand(y) + self.shortcut(x))


class TSM(nn.Layer):  # type: ignore[misc]
    """ResNet-50 over all frames; the mean of a clip's frame scores is the clip's score."""

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
                blocks.append(ShiftBottleneck(inputs, width << stage, stride, layout))
                inputs = 4 * (width << stage)
        self.blocks = nn.Sequential(*blocks)
        self.dropout = nn.Dropout(DROPOUT)
        self.classifier = nn.Linear(inputs, classes, weight_attr=nn.initializer.Normal(std=0.001))

    def forward(self, clips: paddle.Tensor) -> paddle.Tensor:
        """Return the logits of ``clips``, of shape (clips, SEGMENTS, 3, height, width).

        In layout NHWC it is (clips, SEGMENTS, height, width, 3).
        """
        x = self.pool(F.relu(self.stem(clips.flatten(0, 1))))
        x = self.dropout(self.blocks(x).mean(axis=self.spatial_axes))
        scores = self.classifier(x)
        return scores.reshape([-1, SEGMENTS, scores.shape[1]]).mean(axis=1)


def parameter_groups(model: TSM) -> list[dict[str, Any]]:
    """Return the authors' groups: no decay but on weights; the classifier learns faster.

    A group's ``learning_rate`` is a factor on the optimizer's own.
    """
    weights = [m.weight for m in model.sublayers() if isinstance(m, nn.Conv2D)]
    norms = [m for m in model.sublayers() if isinstance(m, nn.BatchNorm2D)]
    return [
        {"params": weights, "weight_decay": WEIGHT_DECAY},
        {"params": [p for norm in norms for p in (norm.weight, norm.bias)]},
        {
            "params": [model.classifier.weight],
            "learning_rate": 5.0,
            "weight_decay": WEIGHT_DECAY,
        },
        {"params": [model.classifier.bias], "learning_rate": 10.0},
    ]


def feed(job: PaddleJob, size: Size) -> Iterator[tuple[paddle.Tensor, paddle.Tensor]]:
    """Return the batches; without real data one and the same for ever, as the loss must fall."""
    if job.data is not None:
        # Needs Pillow, which training on synthetic data does not.
        from .data import Clips

        dataset = Clips(
            job.data,
            classes=size.classes,
            segments=SEGMENTS,
            image=size.image,
            seed=f"{job.seed} {job.rank}",
        )
        return batches_of(job, dataset)
    batch, random = job.batch_size_per_device, job.generator()
    clips = synthetic(
        job, random.standard_normal((batch, SEGMENTS, 3, size.image, size.image), "float32")
    )
    labels = paddle.to_tensor(random.integers(size.classes, size=batch))
    return itertools.repeat((clips, labels))


def build(job: PaddleJob) -> Callable[[], paddle.Tensor]:
    """Return one training iteration; option ``tuned``: see ``paddle_batches.is_tuned``."""
    size = SIZES[job.size]
    set_flags(job)
    model = TSM(size.width, size.classes, size.depths, layout=layout_of(job))
    optimizer = paddle.optimizer.Momentum(
        size.learning_rate * job.world_size,
        MOMENTUM,
        parameters=parameter_groups(model),
        weight_decay=0.0,
        **optimizer_options(job),
    )
    model = job.data_parallel(model)

    batches = feed(job, size)

    def step() -> paddle.Tensor:
        optimizer.clear_grad()
        clips, labels = next(batches)
        with job.autocast():
            loss = F.cross_entropy(model(clips), labels)
        # Gradients are clipped when they have their true size again.
        if job.scaler is None:
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
            optimizer.step()
        else:
            job.scaler.scale(loss).backward()
            job.scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
            job.scaler.step(optimizer)
            job.scaler.update()
        return loss

    return step
