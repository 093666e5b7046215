"""TSM: ResNet-50 with temporal shift on clips of 8 frames, as its authors train it."""

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

    from pytest_dlperf.worker.frameworks.torch.job import TorchJob


def temporal_shift(x: torch.Tensor) -> torch.Tensor:
    """Shift one eighth of the channels back by a frame, and another eighth forth.

    ``x`` has the shape (clips x SEGMENTS, channels, height, width); what a clip shifts beyond
    its ends is dropped, what is missing is zero.
    """
    frames, channels, height, width = x.shape
    x = x.view(frames // SEGMENTS, SEGMENTS, channels, height, width)
    fold = channels // SHIFT_DIV
    shifted = torch.zeros_like(x)
    shifted[:, :-1, :fold] = x[:, 1:, :fold]
    shifted[:, 1:, fold : 2 * fold] = x[:, :-1, fold : 2 * fold]
    shifted[:, :, 2 * fold :] = x[:, :, 2 * fold :]
    return shifted.view(frames, channels, height, width)


class ConvBN(nn.Sequential):  # type: ignore[misc]  # torch is Any here
    """Convolution and batch normalisation."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False),
            nn.BatchNorm2d(outputs),
        )
        nn.init.kaiming_normal_(self[0].weight, mode="fan_out", nonlinearity="relu")


class ShiftBottleneck(nn.Module):  # type: ignore[misc]
    """A bottleneck whose residual branch sees shifted frames (``blockres``)."""

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
        """Return ``relu(shortcut + residual)``; the shortcut is not shifted."""
        y = F.relu(self.reduce(temporal_shift(x)), inplace=True)
        y = F.relu(self.spatial(y), inplace=True)
        return F.relu(self.expand(y) + self.shortcut(x), inplace=True)


class TSM(nn.Module):  # type: ignore[misc]
    """ResNet-50 over all frames; the mean of a clip's frame scores is the clip's score."""

    def __init__(self, width: int, classes: int, depths: tuple[int, ...] = DEPTHS) -> None:
        super().__init__()
        self.stem = ConvBN(3, width, 7, stride=2)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        blocks, inputs = [], width
        for stage, depth in enumerate(depths):
            for index in range(depth):
                stride = 2 if stage > 0 and index == 0 else 1
                blocks.append(ShiftBottleneck(inputs, width << stage, stride))
                inputs = 4 * (width << stage)
        self.blocks = nn.Sequential(*blocks)
        self.dropout = nn.Dropout(DROPOUT)
        self.classifier = nn.Linear(inputs, classes)
        nn.init.normal_(self.classifier.weight, std=0.001)
        nn.init.zeros_(self.classifier.bias)

    def forward(self, clips: torch.Tensor) -> torch.Tensor:
        """Return the logits of ``clips``, of shape (clips, SEGMENTS, 3, height, width)."""
        x = self.pool(F.relu(self.stem(clips.flatten(0, 1)), inplace=True))
        x = self.dropout(self.blocks(x).mean(dim=(2, 3)))
        return self.classifier(x).unflatten(0, (-1, SEGMENTS)).mean(dim=1)


def parameter_groups(model: TSM, rate: float) -> list[dict[str, Any]]:
    """Return the authors' groups: no decay but on weights; the classifier learns faster."""
    weights = [m.weight for m in model.modules() if isinstance(m, nn.Conv2d)]
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    return [
        {"params": weights, "lr": rate, "weight_decay": WEIGHT_DECAY},
        {"params": [p for norm in norms for p in norm.parameters()], "lr": rate},
        {"params": [model.classifier.weight], "lr": 5 * rate, "weight_decay": WEIGHT_DECAY},
        {"params": [model.classifier.bias], "lr": 10 * rate},
    ]


def feed(job: TorchJob, size: Size) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
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
    batch, random = job.batch_size_per_device, {"generator": job.generator(), "device": job.device}
    frames = torch.randn(batch * SEGMENTS, 3, size.image, size.image, **random)
    frames = frames.to(dtype=synthetic_dtype(job), memory_format=memory_format(job))
    clips = frames.unflatten(0, (batch, SEGMENTS))
    labels = torch.randint(size.classes, (batch,), **random)
    return itertools.repeat((clips, labels))


def build(job: TorchJob) -> Callable[[], torch.Tensor]:
    """Return one training iteration; option ``tuned``: see ``torch_batches.is_tuned``."""
    size = SIZES[job.size]
    torch.backends.cudnn.benchmark = True
    model = TSM(size.width, size.classes, size.depths).to(memory_format=memory_format(job))
    groups = parameter_groups(model, size.learning_rate * job.world_size)
    model = job.data_parallel(model, **replica_options(job))
    optimizer = torch.optim.SGD(
        groups, momentum=MOMENTUM, weight_decay=0.0, **optimizer_options(job)
    )

    batches = feed(job, size)

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        clips, labels = next(batches)
        with job.autocast():
            loss = F.cross_entropy(model(clips), labels)
        # The order of the report: gradients are clipped when they have their true size again.
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
