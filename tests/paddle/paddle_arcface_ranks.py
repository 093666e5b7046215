"""One rank of an ArcFace training in float64, on its part of one global batch."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import paddle
import paddle.distributed as dist

from perf_tests.arcface.paddle_train import FaceResNet, ShardedArcFace

CLASSES, BATCH, EMBEDDING, STEPS = 101, 8, 16, 4


def main(folder: Path) -> None:
    """Write the losses of a few steps, and the trunk's weights after them."""
    world_size = int(os.environ.get("PADDLE_TRAINERS_NUM", "1"))
    rank = int(os.environ.get("PADDLE_TRAINER_ID", "0"))
    paddle.set_device("cpu")
    paddle.set_default_dtype("float64")
    if world_size > 1:
        dist.init_parallel_env()
    paddle.seed(0)
    # In eval mode: statistics and dropout are each rank's own in training, by design.
    trunk = FaceResNet(8, 32, EMBEDDING, depths=(1, 1, 1, 1))
    trunk.eval()
    head = ShardedArcFace(EMBEDDING, CLASSES, rank, world_size)
    # The shards drew numbers of their own for weights that were then replaced.
    paddle.seed(1)
    images = paddle.randn([BATCH, 3, 32, 32])
    labels = paddle.randint(0, CLASSES, [BATCH])
    mine = slice(BATCH * rank // world_size, BATCH * (rank + 1) // world_size)
    model = paddle.DataParallel(trunk) if world_size > 1 else trunk
    optimizer = paddle.optimizer.Momentum(0.01, 0.9, parameters=[*trunk.parameters(), head.weight])
    losses = []
    for _ in range(STEPS):
        optimizer.clear_grad()
        loss = head(model(images[mine]), labels[mine])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    squares = [parameter.square().sum().item() for parameter in trunk.parameters()]
    report = {
        "losses": losses,
        "trunk": sum(squares),
        "classifier": head.weight.square().sum().item(),
        "classes": len(head.weight),
    }
    (folder / f"{world_size}-{rank}.json").write_text(json.dumps(report), encoding="utf-8")
    if world_size > 1:
        dist.barrier()
        os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
