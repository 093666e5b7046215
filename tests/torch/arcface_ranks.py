"""One rank of an ArcFace training in float64, on its part of one global batch."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from perf_tests.arcface.torch_train import FaceResNet, ShardedArcFace

CLASSES, BATCH, EMBEDDING, STEPS = 101, 8, 16, 4


def main(folder: Path) -> None:
    """Write the losses of a few steps, and the trunk's weights after them."""
    world_size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    torch.set_num_threads(1)
    if world_size > 1:
        meeting = f"file://{folder / 'rendezvous'}"
        dist.init_process_group("gloo", meeting, rank=rank, world_size=world_size)
    torch.manual_seed(0)
    # In eval mode: statistics and dropout are each rank's own in training, by design.
    trunk = FaceResNet(8, 32, EMBEDDING, depths=(1, 1, 1, 1)).double().eval()
    head = ShardedArcFace(EMBEDDING, CLASSES, rank, world_size).double()
    masked = ShardedArcFace(EMBEDDING, CLASSES, rank, world_size, masked=True).double()
    masked.weight = head.weight
    images = torch.randn(BATCH, 3, 32, 32, dtype=torch.float64)
    labels = torch.randint(CLASSES, (BATCH,))
    mine = slice(BATCH * rank // world_size, BATCH * (rank + 1) // world_size)
    model = torch.nn.parallel.DistributedDataParallel(trunk) if world_size > 1 else trunk
    optimizer = torch.optim.SGD([*trunk.parameters(), head.weight], lr=0.01, momentum=0.9)
    losses, apart = [], 0.0
    for _ in range(STEPS):
        optimizer.zero_grad()
        embeddings = model(images[mine])
        loss = head(embeddings, labels[mine])
        inputs = head.weight, embeddings
        gradients = torch.autograd.grad(loss, inputs, retain_graph=True)
        of_masked = torch.autograd.grad(
            masked(embeddings, labels[mine]), inputs, retain_graph=True
        )
        for one, other in zip(gradients, of_masked, strict=True):
            apart = max(apart, (one - other).abs().max().item())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    weights = torch.cat([p.detach().flatten() for p in trunk.parameters()])
    report = {
        "losses": losses,
        "trunk": weights.norm().item(),
        "classifier": head.weight.square().sum().item(),
        "classes": len(head.weight),
        "masked_apart": apart,
        "largest_gradient": head.weight.grad.abs().max().item(),
    }
    (folder / f"{world_size}-{rank}.json").write_text(json.dumps(report), encoding="utf-8")
    if world_size > 1:
        dist.barrier()
        # Gloo's threads sometimes abort the interpreter's own ending; all is written by now.
        os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
