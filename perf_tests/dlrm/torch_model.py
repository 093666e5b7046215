"""Embedding tables over several ranks, and the two models over them, in plain PyTorch."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from .recipe import Size, owners


class Exchange(torch.autograd.Function):  # type: ignore[misc]  # torch is Any here
    """Each rank's parts to their ranks; backward, their gradients back.

    Those are divided by the world size: a loss is the mean over its rank's samples, and the loss
    of the training is the mean over all.
    """

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, sent: list[int], got: list[int]) -> torch.Tensor:
        """Return what all ranks sent here; ``sent`` and ``got`` are rows for, and from, each."""
        ctx.splits = sent, got
        return exchanged(rows, sent, got)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """Return the gradients of what was sent."""
        sent, got = ctx.splits
        return exchanged(gradient / dist.get_world_size(), got, sent), None, None


def exchanged(rows: torch.Tensor, sent: list[int], got: list[int]) -> torch.Tensor:
    """Return the rows that all ranks have for this one."""
    received = rows.new_empty((sum(got), *rows.shape[1:]))
    dist.all_to_all_single(received, rows.contiguous(), got, sent)
    return received


class Tables(nn.Module):  # type: ignore[misc]
    """The tables of this rank, which looks up what all ranks' samples need of them."""

    def __init__(
        self, size: Size, hots: tuple[int, ...], width: int, rank: int, world_size: int
    ) -> None:
        super().__init__()
        self.hots = hots
        self.owner = owners(size.rows, world_size)
        self.mine = [table for table, owner in enumerate(self.owner) if owner == rank]
        #: Tables in the order in which parts are sent: those of rank 0 first.
        self.order = sorted(range(len(hots)), key=lambda table: self.owner[table])
        self.bags = nn.ModuleList(
            nn.EmbeddingBag(size.rows[table], width, mode="sum", sparse=True)
            for table in self.mine
        )
        for bag in self.bags:
            # As in the reference: uniform, by the number of rows.
            bound = bag.num_embeddings**-0.5
            nn.init.uniform_(bag.weight, -bound, bound)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Return the embeddings of each sample and table: batch, tables, width.

        ``values`` are rows of the tables, for each sample those of all features one after another.
        """
        starts = [0, *accumulate(self.hots)]
        columns = [values[:, starts[t] : starts[t] + self.hots[t]] for t in self.order]
        if not dist.is_initialized():
            looked_up = [bag(part) for bag, part in zip(self.bags, columns, strict=True)]
        else:
            looked_up = [*self._of_all_ranks(columns, len(values))]
        place = {table: index for index, table in enumerate(self.order)}
        return torch.stack([looked_up[place[table]] for table in range(len(self.hots))], dim=1)

    def _of_all_ranks(self, columns: list[torch.Tensor], batch: int) -> tuple[torch.Tensor, ...]:
        world_size = dist.get_world_size()
        tables_of = [self.owner.count(rank) for rank in range(world_size)]
        wanted = [
            batch * sum(h for h, owner in zip(self.hots, self.owner, strict=True) if owner == rank)
            for rank in range(world_size)
        ]
        asked = batch * sum(self.hots[table] for table in self.mine)
        flat = torch.cat([part.flatten() for part in columns])
        questions = exchanged(flat, wanted, [asked] * world_size).view(world_size, -1)
        starts = [0, *accumulate(batch * self.hots[table] for table in self.mine)]
        answers = [
            bag(questions[:, start : start + batch * hot].reshape(-1, hot)).view(
                world_size, batch, -1
            )
            for bag, start, hot in zip(
                self.bags, starts, (self.hots[table] for table in self.mine), strict=False
            )
        ]
        rows = torch.stack(answers, dim=1).flatten(0, 2)
        sent, got = [batch * len(self.mine)] * world_size, [batch * n for n in tables_of]
        received: torch.Tensor = Exchange.apply(rows, sent, got)
        return tuple(received.view(len(self.hots), batch, -1))


def layers(inputs: int, widths: tuple[int, ...]) -> nn.Sequential:
    """Return linear layers of these widths, each with ReLU."""
    made: list[nn.Module] = []
    for width in widths:
        made += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*made)


class Crosses(nn.Module):  # type: ignore[misc]
    """DCNv2 (Wang et al., arXiv 2008.13535): x0 * (V U x + b) + x, with U and V of a low rank."""

    def __init__(self, width: int, rank: int, count: int) -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Linear(width, rank, bias=False) for _ in range(count))
        self.up = nn.ModuleList(nn.Linear(rank, width) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the crossed features, of the shape of ``x``."""
        crossed = x
        for down, up in zip(self.down, self.up, strict=True):
            crossed = x * up(down(crossed)) + crossed
        return crossed


class Dcnv2(nn.Module):  # type: ignore[misc]
    """DLRM with crosses in place of products: what MLPerf's second recommendation task trains."""

    #: Columns of a table beyond the embedding.
    beside = 0

    def __init__(self, size: Size) -> None:
        super().__init__()
        features = size.embedding * (1 + len(size.rows))
        self.bottom = layers(size.dense, size.bottom)
        self.crosses = Crosses(features, size.cross_rank, size.crosses)
        self.top = layers(features, size.top)
        self.head = nn.Linear(size.top[-1], 1)

    def forward(self, dense: torch.Tensor, embeddings: torch.Tensor) -> torch.Tensor:
        """Return the logit of each sample."""
        below = self.bottom(dense).unsqueeze(1)
        features = torch.cat((below, embeddings.to(below.dtype)), dim=1).flatten(1)
        return self.head(self.top(self.crosses(features))).squeeze(1)


class WideDeep(nn.Module):  # type: ignore[misc]
    """Wide & Deep (Cheng et al., arXiv 1606.07792): a linear model, and layers, summed.

    The last column of a table is the weight of its row in the linear model.
    """

    beside = 1

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.wide = nn.Linear(size.dense, 1)
        self.deep = layers(size.dense + size.embedding * len(size.rows), size.top)
        self.head = nn.Linear(size.top[-1], 1)

    def forward(self, dense: torch.Tensor, embeddings: torch.Tensor) -> torch.Tensor:
        """Return the logit of each sample."""
        deep, weights = embeddings[..., :-1].flatten(1), embeddings[..., -1]
        together = torch.cat((dense, deep.to(dense.dtype)), dim=1)
        wide = self.wide(dense).squeeze(1) + weights.sum(dim=1)
        return self.head(self.deep(together)).squeeze(1) + wide


MODELS: dict[str, type[Dcnv2] | type[WideDeep]] = {"dcnv2": Dcnv2, "wide_deep": WideDeep}
