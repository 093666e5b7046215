"""Llama 3 in plain PyTorch: RMSNorm, rotary embedding, grouped-query attention, SwiGLU."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from .recipe import Size

#: Standard deviation of the first weights, as in GPT-2 and in torchtitan's Llama.
_INITIAL_SD = 0.02
_EPSILON = 1e-5


class Attention(nn.Module):  # type: ignore[misc]  # torch is Any here
    """Causal self-attention, whose keys and values have fewer heads than its queries."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.head = size.width // size.heads
        self.queries = nn.Linear(size.width, size.heads * self.head, bias=False)
        self.keys = nn.Linear(size.width, size.kv_heads * self.head, bias=False)
        self.values = nn.Linear(size.width, size.kv_heads * self.head, bias=False)
        self.out = nn.Linear(size.heads * self.head, size.width, bias=False)

    def forward(self, x: torch.Tensor, angles: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Return what each token gathers from itself and those before it."""
        # With tensor parallelism a rank has a part of the heads, so their number is not given.
        q, k, v = (
            part(x).unflatten(-1, (-1, self.head)).transpose(1, 2)
            for part in (self.queries, self.keys, self.values)
        )
        q, k = rotated(q, angles), rotated(k, angles)
        shared = q.shape[1] // k.shape[1]
        k, v = (part.repeat_interleave(shared, dim=1) for part in (k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):  # type: ignore[misc]
    """SwiGLU: a gated network of two layers."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.gate = nn.Linear(size.width, size.hidden, bias=False)
        self.up = nn.Linear(size.width, size.hidden, bias=False)
        self.down = nn.Linear(size.hidden, size.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``down(silu(gate(x)) * up(x))``."""
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):  # type: ignore[misc]
    """Attention and the feed-forward network, each after a norm and added to its input."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(size.width, eps=_EPSILON)
        self.attention = Attention(size)
        self.feed_forward_norm = nn.RMSNorm(size.width, eps=_EPSILON)
        self.feed_forward = FeedForward(size)

    def forward(self, x: torch.Tensor, angles: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Return the block's output, of the shape of ``x``: batch, tokens, width."""
        x = x + self.attention(self.attention_norm(x), angles)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Llama(nn.Module):  # type: ignore[misc]
    """The whole model; ``recompute``: blocks compute their activations again in backward."""

    def __init__(self, size: Size, *, recompute: bool = False) -> None:
        super().__init__()
        self.size, self.recompute = size, recompute
        self.embedding = nn.Embedding(size.vocabulary, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm = nn.RMSNorm(size.width, eps=_EPSILON)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits of each next token: batch, tokens, vocabulary."""
        x = self.embedding(tokens)
        angles = angles_of(self.size, tokens.shape[1], x.device, x.dtype)
        for block in self.blocks:
            if self.recompute:
                x = checkpoint(block, x, angles, use_reentrant=False)
            else:
                x = block(x, angles)
        return self.head(self.norm(x))


def angles_of(
    size: Size, tokens: int, device: torch.device, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cosine and sine of the rotation of each position and pair of channels."""
    head = size.width // size.heads
    channels = torch.arange(0, head, 2, device=device, dtype=torch.float32)
    turns = size.rope_base ** (-channels / head)
    angles = torch.outer(torch.arange(tokens, device=device, dtype=torch.float32), turns)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotated(x: torch.Tensor, angles: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Return ``x`` with each pair of channels (i, i + half) turned by its position's angle."""
    cosine, sine = (part.to(x.dtype) for part in angles)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


def initialize(part: nn.Module, seed: int) -> None:
    """Fill the parameters of ``part``, the same whatever device and ranks will hold them."""
    made = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in part.parameters():
            if parameter.dim() == 1:
                parameter.fill_(1.0)
            else:
                numbers = torch.empty(parameter.shape).normal_(std=_INITIAL_SD, generator=made)
                parameter.copy_(numbers)
