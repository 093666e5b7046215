"""ArcFace R50 in Paddle, with a classifier that is sharded over the ranks, as PLSC trains it."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import paddle
import paddle.distributed as dist
from paddle import nn
from paddle.nn import functional as F

from ..paddle_batches import batches_of, layout_of, optimizer_options, set_flags, synthetic
from .recipe import (
    DEPTHS,
    DROPOUT,
    MARGIN,
    MOMENTUM,
    SCALE,
    SIZES,
    WEIGHT_DECAY,
    Size,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_dlperf.worker.frameworks.paddle.job import PaddleJob


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1, *, layout: str) -> nn.Conv2D:
    """Return a convolution without bias."""
    # Paddle calls it fan_in; the number is fan-out.
    weights = nn.initializer.KaimingNormal(fan_in=outputs * kernel**2)
    return nn.Conv2D(
        inputs,
        outputs,
        kernel,
        stride,
        padding=kernel // 2,
        weight_attr=weights,
        bias_attr=False,
        data_format=layout,
    )


def norm(channels: int, layout: str = "NCHW") -> nn.BatchNorm2D:
    """Return batch normalisation as PLSC sets it."""
    return nn.BatchNorm2D(channels, epsilon=2e-5, data_format=layout)


class Block(nn.Layer):  # type: ignore[misc]  # paddle is Any here
    """Normalise, then two 3x3 convolutions, the second with the stride; no ReLU at the end."""

    def __init__(self, inputs: int, outputs: int, stride: int, layout: str) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            norm(inputs, layout),
            conv(inputs, outputs, 3, layout=layout),
            norm(outputs, layout),
            nn.PReLU(data_format=layout),
            conv(outputs, outputs, 3, stride, layout=layout),
            norm(outputs, layout),
        )
        self.shortcut = (
            nn.Sequential(conv(inputs, outputs, 1, stride, layout=layout), norm(outputs, layout))
            if stride != 1 or inputs != outputs
            else nn.Identity()
        )

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """Return ``shortcut + residual``."""
        return self.shortcut(x) + self.residual(x)


class FaceResNet(nn.Layer):  # type: ignore[misc]
    """The "ResNet50" of PLSC: 24 blocks of two 3x3 convolutions, and a linear embedding."""

    def __init__(
        self,
        width: int,
        image: int,
        embedding: int,
        depths: tuple[int, ...] = DEPTHS,
        *,
        layout: str = "NCHW",
    ) -> None:
        super().__init__()
        self.layout = layout
        self.stem = nn.Sequential(
            conv(3, width, 3, layout=layout), norm(width, layout), nn.PReLU(data_format=layout)
        )
        blocks, inputs = [], width
        for stage, depth in enumerate(depths):
            for index in range(depth):
                blocks.append(Block(inputs, width << stage, 2 if index == 0 else 1, layout))
                inputs = width << stage
        self.blocks = nn.Sequential(*blocks)
        self.embed = nn.Sequential(
            norm(inputs),
            nn.Dropout(DROPOUT),
            nn.Flatten(),
            nn.Linear(inputs * (image // 2 ** len(depths)) ** 2, embedding),
            nn.BatchNorm1D(embedding, epsilon=2e-5),
        )

    def forward(self, images: paddle.Tensor) -> paddle.Tensor:
        """Return the embeddings of ``images``."""
        x = self.blocks(self.stem(images))
        if self.layout == "NHWC":  # the embedding reads pixel by pixel of each channel
            x = x.transpose([0, 3, 1, 2])
        return self.embed(x)


class GatherRows(paddle.autograd.PyLayer):  # type: ignore[misc]
    """All ranks' rows, in order of rank; backward, the sum of what all ranks say of mine.

    The result is multiplied by the world size, because DataParallel will divide by it: the
    loss is the mean over the global batch already.
    """

    @staticmethod
    def forward(ctx: Any, rows: paddle.Tensor) -> paddle.Tensor:
        """Gather."""
        return gathered(rows)

    @staticmethod
    def backward(ctx: Any, gradient: paddle.Tensor) -> paddle.Tensor:
        """Sum over ranks, and keep my rows."""
        world_size = dist.get_world_size()
        total = over_ranks(gradient.clone(), dist.ReduceOp.SUM)
        return total.chunk(world_size)[dist.get_rank()] * world_size


class ShardedCrossEntropy(paddle.autograd.PyLayer):  # type: ignore[misc]
    """Mean cross entropy of logits whose columns lie on several ranks.

    Every rank has all rows and some columns; ``columns`` are targets among them, and ``here``
    is 1 in the rows whose target is, else 0.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: paddle.Tensor, columns: paddle.Tensor, here: paddle.Tensor
    ) -> paddle.Tensor:
        """Return the loss of the whole batch, the same on all ranks."""
        largest = over_ranks(logits.max(axis=1, keepdim=True), dist.ReduceOp.MAX)
        shifted = logits - largest
        target = paddle.take_along_axis(shifted, columns, 1) * here
        probabilities = shifted.exp()
        total = probabilities.sum(axis=1, keepdim=True)
        total, target = over_ranks(paddle.stack([total, target]), dist.ReduceOp.SUM)
        ctx.save_for_backward(probabilities / total, columns, here)
        return (total.log() - target).mean()

    @staticmethod
    def backward(ctx: Any, gradient: paddle.Tensor) -> tuple[paddle.Tensor, None, None]:
        """Return (softmax - one-hot) / batch."""
        probabilities, columns, here = ctx.saved_tensor()
        result = paddle.put_along_axis(probabilities, columns, -here, 1, reduce="add")
        return result * (gradient / len(result)), None, None


def gathered(rows: paddle.Tensor) -> paddle.Tensor:
    """Return all ranks' rows; no gradient flows back."""
    parts: list[paddle.Tensor] = []
    dist.all_gather(parts, rows.contiguous())
    return paddle.concat(parts)


def over_ranks(x: paddle.Tensor, operation: Any) -> paddle.Tensor:
    """Return ``x`` reduced over all ranks, in place."""
    if dist.is_initialized():
        dist.all_reduce(x, operation)
    return x


class ShardedArcFace(nn.Layer):  # type: ignore[misc]
    """The loss over all classes; this rank holds the weights of ``classes[start:stop]``."""

    def __init__(self, embedding: int, classes: int, rank: int, world_size: int) -> None:
        super().__init__()
        self.start, self.stop = (classes * r // world_size for r in (rank, rank + 1))
        everything = paddle.randn([classes, embedding]) * math.sqrt(2 / (classes + embedding))
        self.weight = self.create_parameter([self.stop - self.start, embedding])
        self.weight.set_value(everything[self.start : self.stop])

    def forward(self, embeddings: paddle.Tensor, labels: paddle.Tensor) -> paddle.Tensor:
        """Return the mean loss of all ranks' embeddings."""
        unit = F.normalize(embeddings)
        if dist.is_initialized():
            unit, labels = GatherRows.apply(unit), gathered(labels)
        cosine = paddle.matmul(unit, F.normalize(self.weight), transpose_y=True)
        if cosine.dtype in {paddle.float16, paddle.bfloat16}:
            cosine = cosine.astype("float32")
        here = (labels >= self.start) & (labels < self.stop)
        columns = paddle.where(here, labels - self.start, paddle.zeros_like(labels)).unsqueeze(1)
        here = here.astype(cosine.dtype).unsqueeze(1)
        logits = SCALE * with_margin(cosine, columns, here)
        return ShardedCrossEntropy.apply(logits, columns, here)


def with_margin(
    cosine: paddle.Tensor, columns: paddle.Tensor, here: paddle.Tensor
) -> paddle.Tensor:
    """Return ``cosine`` with cos(angle + MARGIN) in each row's target column, if it is here.

    ``margin_cross_entropy`` of Paddle would do both steps at once, but has no CPU kernel.
    """
    target = paddle.take_along_axis(cosine, columns, 1)
    sine = (1 - target.square()).clip(min=1e-12).sqrt()
    moved = target * math.cos(MARGIN) - sine * math.sin(MARGIN)
    return paddle.put_along_axis(cosine, columns, (moved - target) * here, 1, reduce="add")


def share_overflow(gradient: paddle.Tensor) -> None:
    """Make ``gradient`` NaN on all ranks if any rank's is not finite.

    A shard's gradient is its rank's own; without this one rank would skip a step alone.
    """
    # Paddle refuses to change a gradient in place where gradients are recorded.
    with paddle.no_grad():
        total = over_ranks(gradient.sum().reshape([1]), dist.ReduceOp.SUM)
        gradient.add_(total * 0)


def feed(job: PaddleJob, size: Size) -> Iterator[tuple[paddle.Tensor, paddle.Tensor]]:
    """Return the batches; without real data one and the same for ever, as the loss must fall."""
    if job.data is not None:
        # Needs Pillow, which training on synthetic data does not.
        from .data import Faces

        dataset = Faces(
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
    head = ShardedArcFace(size.embedding, size.classes, job.rank, job.world_size)
    trunk = job.data_parallel(
        FaceResNet(size.width, size.image, size.embedding, size.depths, layout=layout_of(job))
    )

    batch, batches = job.batch_size_per_device, feed(job, size)
    optimizer = paddle.optimizer.Momentum(
        size.learning_rate * batch * job.world_size / 1024,
        MOMENTUM,
        parameters=[*trunk.parameters(), head.weight],
        weight_decay=WEIGHT_DECAY,
        **optimizer_options(job),
    )

    def step() -> paddle.Tensor:
        optimizer.clear_grad()
        images, labels = next(batches)
        with job.autocast():
            loss = head(trunk(images), labels)
        if job.scaler is None:
            loss.backward()
            optimizer.step()
        else:
            job.scaler.scale(loss).backward()
            share_overflow(head.weight.grad)
            job.scaler.step(optimizer)
            job.scaler.update()
        return loss

    return step
