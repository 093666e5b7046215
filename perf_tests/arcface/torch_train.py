"""ArcFace R50 with a classifier that is sharded over the ranks, as PLSC trains it."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from ..torch_batches import (
    batches_of,
    is_tuned,
    memory_format,
    optimizer_options,
    replica_options,
    synthetic_dtype,
)
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

    from pytest_dlperf.worker.frameworks.torch.job import TorchJob


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    """Return a convolution without bias."""
    made = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(made.weight, mode="fan_out")
    return made


def norm(channels: int) -> nn.BatchNorm2d:
    """Return batch normalisation as PLSC sets it."""
    return nn.BatchNorm2d(channels, eps=2e-5)


class Block(nn.Module):  # type: ignore[misc]  # torch is Any here
    """Normalise, then two 3x3 convolutions, the second with the stride; no ReLU at the end."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            norm(inputs),
            conv(inputs, outputs, 3),
            norm(outputs),
            nn.PReLU(),
            conv(outputs, outputs, 3, stride),
            norm(outputs),
        )
        self.shortcut = (
            nn.Sequential(conv(inputs, outputs, 1, stride), norm(outputs))
            if stride != 1 or inputs != outputs
            else nn.Identity()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``shortcut + residual``."""
        return self.shortcut(x) + self.residual(x)


class FaceResNet(nn.Module):  # type: ignore[misc]
    """The "ResNet50" of PLSC: 24 blocks of two 3x3 convolutions, and a linear embedding."""

    def __init__(
        self, width: int, image: int, embedding: int, depths: tuple[int, ...] = DEPTHS
    ) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, width, 3), norm(width), nn.PReLU())
        self.blocks = nn.Sequential()
        inputs = width
        for stage, depth in enumerate(depths):
            for index in range(depth):
                self.blocks.append(Block(inputs, width << stage, 2 if index == 0 else 1))
                inputs = width << stage
        self.embed = nn.Sequential(
            norm(inputs),
            nn.Dropout(DROPOUT),
            nn.Flatten(),
            nn.Linear(inputs * (image // 2 ** len(depths)) ** 2, embedding),
            nn.BatchNorm1d(embedding, eps=2e-5),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the embeddings of ``images``."""
        return self.embed(self.blocks(self.stem(images)))


class GatherRows(torch.autograd.Function):  # type: ignore[misc]
    """All ranks' rows, in order of rank; backward, the sum of what all ranks say of mine.

    The result is multiplied by the world size, because DistributedDataParallel will divide
    by it: the loss is the mean over the global batch already.
    """

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor) -> torch.Tensor:
        """Gather."""
        parts = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, rows.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        """Sum over ranks, and keep my rows."""
        world_size = dist.get_world_size()
        gradient = gradient.contiguous() * world_size
        mine = gradient.chunk(world_size)[dist.get_rank()].clone()
        if gradient.is_cuda:  # gloo has no reduce-scatter
            dist.reduce_scatter_tensor(mine, gradient)
            return mine
        dist.all_reduce(gradient)
        return gradient.chunk(world_size)[dist.get_rank()]


class ShardedCrossEntropy(torch.autograd.Function):  # type: ignore[misc]
    """Mean cross entropy of logits whose columns lie on several ranks.

    Every rank has all rows and some columns; ``labels`` are columns of this rank, or -1.
    """

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss of the whole batch, the same on all ranks."""
        largest = over_ranks(logits.amax(dim=1, keepdim=True), dist.ReduceOp.MAX)
        shifted = logits - largest
        rows = (labels >= 0).nonzero().squeeze(1)
        target = logits.new_zeros(len(logits), 1)
        target[rows, 0] = shifted[rows, labels[rows]]
        probabilities = shifted.exp_()
        total = probabilities.sum(dim=1, keepdim=True)
        total, target = over_ranks(torch.stack([total, target]), dist.ReduceOp.SUM)
        ctx.save_for_backward(probabilities.div_(total), rows, labels[rows])
        return (total.log() - target).mean()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Return (softmax - one-hot) / batch."""
        probabilities, rows, columns = ctx.saved_tensors
        result = probabilities.clone()
        result[rows, columns] -= 1
        return result.mul_(gradient / len(result)), None


class MaskedCrossEntropy(torch.autograd.Function):  # type: ignore[misc]
    """The same loss without a wait for the GPU: no number of rows is asked of it."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss of the whole batch, the same on all ranks."""
        largest = over_ranks(logits.amax(dim=1, keepdim=True), dist.ReduceOp.MAX)
        shifted = logits - largest
        here, columns = _target_columns(labels)
        target = shifted.gather(1, columns) * here
        probabilities = shifted.exp_()
        total = probabilities.sum(dim=1, keepdim=True)
        total, target = over_ranks(torch.stack([total, target]), dist.ReduceOp.SUM)
        ctx.save_for_backward(probabilities.div_(total), labels)
        return (total.log() - target).mean()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Return (softmax - one-hot) / batch."""
        probabilities, labels = ctx.saved_tensors
        here, columns = _target_columns(labels)
        result = probabilities.scatter_add(1, columns, -here.to(probabilities.dtype))
        return result.mul_(gradient / len(result)), None


def _target_columns(labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return for each row whether its label is a column of this rank, and that column, or 0."""
    return (labels >= 0).unsqueeze(1), labels.clamp_min(0).unsqueeze(1)


def over_ranks(x: torch.Tensor, operation: Any) -> torch.Tensor:
    """Return ``x`` reduced over all ranks, in place."""
    if dist.is_initialized():
        dist.all_reduce(x, operation)
    return x


class ShardedArcFace(nn.Module):  # type: ignore[misc]
    """The loss over all classes; this rank holds the weights of ``classes[start:stop]``."""

    def __init__(
        self, embedding: int, classes: int, rank: int, world_size: int, *, masked: bool = False
    ) -> None:
        """``masked``: no step waits for the GPU."""
        super().__init__()
        self.masked = masked
        # Balanced: the first `classes % world_size` ranks hold one class more.
        self.start, self.stop = (classes * r // world_size for r in (rank, rank + 1))
        everything = torch.randn(classes, embedding) * math.sqrt(2 / (classes + embedding))
        self.weight = nn.Parameter(everything[self.start : self.stop].clone())

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the mean loss of all ranks' embeddings."""
        unit = F.normalize(embeddings)
        if dist.is_initialized():
            unit = GatherRows.apply(unit)
            labels = GatherRows.apply(labels)
        cosine = F.linear(unit, F.normalize(self.weight))
        cosine = cosine.to(torch.promote_types(cosine.dtype, torch.float32))
        here = (labels >= self.start) & (labels < self.stop)
        columns = torch.where(here, labels - self.start, -1)
        if self.masked:
            return MaskedCrossEntropy.apply(SCALE * masked_margin(cosine, columns), columns)
        return ShardedCrossEntropy.apply(SCALE * with_margin(cosine, columns), columns)


def with_margin(cosine: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """Return ``cosine`` with cos(angle + MARGIN) in each row's target column, if it is here."""
    rows = (columns >= 0).nonzero().squeeze(1)
    target = cosine[rows, columns[rows]]
    return cosine.index_put((rows, columns[rows]), _moved(target))


def masked_margin(cosine: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """Return the same without a wait for the GPU."""
    here, columns = _target_columns(columns)
    target = cosine.gather(1, columns)
    return cosine.scatter(1, columns, torch.where(here, _moved(target), target))


def _moved(target: torch.Tensor) -> torch.Tensor:
    sine = (1 - target.square()).clamp_min(1e-12).sqrt()
    return target * math.cos(MARGIN) - sine * math.sin(MARGIN)


def share_overflow(gradient: torch.Tensor) -> None:
    """Make one element NaN on all ranks if any rank's gradient is not finite.

    A shard's gradient is its rank's own; without this one rank would skip a step alone.
    """
    total = over_ranks(gradient.sum(), dist.ReduceOp.SUM)
    gradient[0, 0] += total * 0


def feed(job: TorchJob, size: Size) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Return the batches; without real data one and the same for ever, as the loss must fall."""
    if job.data is not None:
        # Needs Pillow, which training on synthetic data does not.
        from .data import Faces

        dataset = Faces(
            job.data, classes=size.classes, image=size.image, seed=f"{job.seed} {job.rank}"
        )
        return batches_of(job, dataset, memory_format=memory_format(job))
    batch, random = job.batch_size_per_device, {"generator": job.generator(), "device": job.device}
    images = torch.randn(batch, 3, size.image, size.image, **random)
    images = images.to(dtype=synthetic_dtype(job), memory_format=memory_format(job))
    labels = torch.randint(size.classes, (batch,), **random)
    return itertools.repeat((images, labels))


def build(job: TorchJob) -> Callable[[], torch.Tensor]:
    """Return one training iteration.

    Option ``tuned``: see ``torch_batches.is_tuned``; its loss is computed without a wait.
    """
    size = SIZES[job.size]
    torch.backends.cudnn.benchmark = True
    head = ShardedArcFace(
        size.embedding, size.classes, job.rank, job.world_size, masked=is_tuned(job)
    )
    head = head.to(device=job.device, dtype=job.dtype)
    trunk = FaceResNet(size.width, size.image, size.embedding, size.depths)
    trunk = job.data_parallel(trunk.to(memory_format=memory_format(job)), **replica_options(job))

    batch, batches = job.batch_size_per_device, feed(job, size)
    optimizer = torch.optim.SGD(
        [*trunk.parameters(), head.weight],
        lr=size.learning_rate * batch * job.world_size / 1024,
        momentum=MOMENTUM,
        weight_decay=WEIGHT_DECAY,
        **optimizer_options(job),
    )

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
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
