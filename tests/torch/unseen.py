"""Trainings with operators that a counter of operations knows badly, or not at all."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

WIDTH, PLACES, GROUPS = 16, 8, 2


@torch.library.custom_op("dlperf_tests::mixed", mutates_args=())
def mixed(x: torch.Tensor) -> torch.Tensor:
    """Return what an operator makes of it that nobody can look into."""
    return x @ torch.ones(WIDTH, WIDTH, dtype=x.dtype)


class Attention(nn.Module):
    """FlexAttention, which has no backward pass on CPUs."""

    def __init__(self, *, is_compiled: bool) -> None:
        super().__init__()
        flex = torch.compile(flex_attention, backend="eager") if is_compiled else flex_attention
        self.flex = flex

    def forward(self, x):
        with torch.no_grad():
            parts = x.unflatten(-1, (2, WIDTH // 2)).transpose(1, 2)
            return self.flex(parts, parts, parts).transpose(1, 2).flatten(2)


class Experts(nn.Module):
    """Groups of rows, each by a matrix of its own in bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(0.1 * torch.randn(GROUPS, WIDTH, WIDTH))

    def forward(self, x):
        rows = x.flatten(0, 1).bfloat16()
        ends = torch.arange(1, GROUPS + 1, dtype=torch.int32) * (len(rows) // GROUPS)
        found = functional.grouped_mm(rows, self.weights.bfloat16(), offs=ends)
        return found.float().view_as(x) + x


class Recurrent(nn.LSTM):
    """An LSTM that returns its outputs alone."""

    def __init__(self) -> None:
        super().__init__(WIDTH, WIDTH, batch_first=True)

    def forward(self, x):
        return super().forward(x)[0]


class Unseen(nn.Module):
    """An operator of nobody's, given values of ``dtype``."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, x):
        with torch.no_grad():
            return mixed(x.to(self.dtype)).float()


class Unwatchable(nn.Module):
    """A layer that needs more memory while somebody looks."""

    def forward(self, x):
        if is_in_torch_dispatch_mode():
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 TiB")
        return x


LAYERS = {
    "experts": Experts,
    "flex": lambda: Attention(is_compiled=False),
    "flex-compiled": lambda: Attention(is_compiled=True),
    "lstm": Recurrent,
    "unseen": lambda: Unseen(torch.float32),
    "unseen-half": lambda: Unseen(torch.bfloat16),
    "unwatchable": Unwatchable,
}


def build(job):
    """Train a head in float32 upon a layer, named by option ``layer``."""
    torch.manual_seed(job.seed)
    layer = LAYERS[str(job.options["layer"])]()
    model = job.data_parallel(nn.Sequential(layer, nn.Flatten(), nn.Linear(PLACES * WIDTH, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x = torch.randn(job.batch_size_per_device, PLACES, WIDTH, generator=job.generator())
    y = torch.arange(job.batch_size_per_device) % 4

    def step():
        loss = functional.cross_entropy(model(x), y)
        job.backward(loss, optimizer)
        return loss

    return step
