"""HRNet-W18 with an FCN head in Paddle, as PaddleSeg's benchmark trains it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F

from .paddle_model import HRNet
from .recipe import CLASSES, IGNORED, MOMENTUM, PURE_FP16_SCALE, SIZES, WEIGHT_DECAY, Size, rate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_dlperf.worker.frameworks.paddle.job import PaddleJob


def street(job: PaddleJob, size: Size) -> tuple[paddle.Tensor, paddle.Tensor]:
    """Return images and labels: patches of one class, in its colour, under noise; a border.

    Labels of single pixels at random could not be learnt at an output stride of 4.
    """
    random: np.random.Generator = job.generator()
    batch, patch = job.batch_size_per_device, size.height // 8
    colours = random.standard_normal((CLASSES, 3), "float32")
    labels = random.integers(CLASSES, size=(batch, size.height // patch, size.breadth // patch))
    labels = labels.repeat(patch, axis=1).repeat(patch, axis=2)
    images = colours[labels].transpose(0, 3, 1, 2)
    images = images + 0.5 * random.standard_normal(images.shape, "float32")
    labels[:, :, : patch // 2] = IGNORED
    return paddle.to_tensor(np.ascontiguousarray(images)).astype(job.dtype), paddle.to_tensor(
        labels
    )


def feed(job: PaddleJob, size: Size) -> Iterator[tuple[paddle.Tensor, paddle.Tensor]]:
    """Return the batches; without real data one and the same for ever, as the loss must fall."""
    if job.data is not None:
        # Needs Pillow, which training on synthetic data does not.
        from ..cityscapes import Streets

        seed = f"{job.seed} {job.rank}"
        dataset = Streets(job.data, "hrnet", height=size.height, breadth=size.breadth, seed=seed)
        batches = job.batches(job.loader(dataset))
        return ((images.astype(job.dtype), labels) for images, labels in batches)
    return itertools.repeat(street(job, size))


def build(job: PaddleJob) -> Callable[[], paddle.Tensor]:
    """Return one training iteration."""
    size = SIZES[job.size]
    model = HRNet(size)
    if job.world_size > 1 and job.device.startswith("gpu"):
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    model = job.data_parallel(model)

    # SGD on gradients that are `scale` times too large is SGD on true ones when the learning
    # rate is that much smaller and the decay that much larger.
    scale = PURE_FP16_SCALE if job.precision == "pure_fp16" else 1.0
    optimizer = paddle.optimizer.Momentum(
        0.0, MOMENTUM, parameters=model.parameters(), weight_decay=WEIGHT_DECAY * scale
    )
    batches = feed(job, size)
    iteration = 0

    def step() -> paddle.Tensor:
        nonlocal iteration
        optimizer.set_lr(rate(size.learning_rate, iteration) / scale)
        iteration += 1
        images, labels = next(batches)
        with job.autocast():
            loss = F.cross_entropy(model(images), labels, axis=1, ignore_index=IGNORED)
        job.backward(loss * scale, optimizer)
        return loss

    return step
