"""One rank of a DLRM in float64, on its part of one global batch."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn import functional as F

from perf_tests.dlrm.recipe import SIZES
from perf_tests.dlrm.torch_model import MODELS, Tables
from perf_tests.dlrm.torch_train import skewed

SIZE, BATCH, STEPS = SIZES["tiny"], 8, 4


def main(folder: Path) -> None:
    """Write what each of the models has learnt."""
    world_size, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    torch.set_num_threads(1)
    if world_size > 1:
        meeting = f"file://{folder / 'rendezvous'}"
        dist.init_process_group("gloo", meeting, rank=rank, world_size=world_size)
    report = {name: learnt(kind, rank, world_size) for name, kind in MODELS.items()}
    (folder / f"{world_size}-{rank}.json").write_text(json.dumps(report), encoding="utf-8")
    if world_size > 1:
        dist.barrier()
        # Gloo's threads sometimes abort the interpreter's own ending; all is written by now.
        os._exit(0)


def learnt(kind: type[torch.nn.Module], rank: int, world_size: int) -> dict[str, object]:
    """Return the losses of a few steps, and the weights after them."""
    torch.manual_seed(0)
    model = kind(SIZE).double()
    dense = torch.randn(BATCH, SIZE.dense, dtype=torch.float64)
    rows = torch.cat(
        [
            skewed(torch.rand(BATCH, hot), count)
            for count, hot in zip(SIZE.rows, SIZE.hots, strict=True)
        ],
        dim=1,
    )
    labels = torch.randint(2, (BATCH,)).double()
    tables = Tables(SIZE, SIZE.hots, SIZE.embedding + kind.beside, rank, world_size).double()
    for table, bag in zip(tables.mine, tables.bags, strict=True):
        made = torch.Generator().manual_seed(table)
        torch.nn.init.normal_(bag.weight, std=0.1, generator=made)
    mine = slice(BATCH * rank // world_size, BATCH * (rank + 1) // world_size)
    wrapped = torch.nn.parallel.DistributedDataParallel(model) if world_size > 1 else model
    optimizer = torch.optim.Adagrad([*model.parameters(), *tables.parameters()], lr=0.05)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        logits = wrapped(dense[mine], tables(rows[mine]))
        loss = F.binary_cross_entropy_with_logits(logits, labels[mine])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {
        "losses": losses,
        "layers": sum(p.detach().square().sum().item() for p in model.parameters()),
        "tables": {
            table: bag.weight.square().sum().item()
            for table, bag in zip(tables.mine, tables.bags, strict=True)
        },
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
