"""Transformer in plain PyTorch, with the norm before attention and feed-forward network."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from .recipe import DROPOUT, Size


class Attention(nn.Module):  # type: ignore[misc]  # torch is Any here
    """Multi-head attention, from the decoder to the encoder or within one of them."""

    def __init__(self, size: Size, *, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal, self.dropout_p = size.heads, causal, DROPOUT
        self.queries, self.keys, self.values, self.out = (
            nn.Linear(size.width, size.width, bias=False) for _ in range(4)
        )

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        """Return what each token of ``x`` gathers from ``memory``."""
        q, k, v = (
            part(given).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part, given in ((self.queries, x), (self.keys, memory), (self.values, memory))
        )
        mixed = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout_p if self.training else 0.0, is_causal=self.causal
        )
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):  # type: ignore[misc]
    """A layer of the encoder, or of the decoder, which also looks at the encoder's result."""

    def __init__(self, size: Size, *, decodes: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size.width)
        self.attention = Attention(size, causal=decodes)
        self.decodes = decodes
        if decodes:
            self.source_norm = nn.LayerNorm(size.width)
            self.source_attention = Attention(size)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(size.width),
            nn.Linear(size.width, size.hidden),
            nn.ReLU(),
            nn.Dropout(DROPOUT),
            nn.Linear(size.hidden, size.width),
        )
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: torch.Tensor, memory: torch.Tensor | None = None) -> torch.Tensor:
        """Return the layer's output, of the shape of ``x``."""
        y = self.norm(x)
        x = x + self.dropout(self.attention(y, y))
        if self.decodes:
            x = x + self.dropout(self.source_attention(self.source_norm(x), memory))
        return x + self.dropout(self.feed_forward(x))


class Transformer(nn.Module):  # type: ignore[misc]
    """Encoder and decoder; one embedding is that of both languages and the head."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        self.embedding = nn.Embedding(size.vocabulary, size.width)
        self.encoder = nn.ModuleList(Block(size, decodes=False) for _ in range(size.layers))
        self.encoder_norm = nn.LayerNorm(size.width)
        self.decoder = nn.ModuleList(Block(size, decodes=True) for _ in range(size.layers))
        self.decoder_norm = nn.LayerNorm(size.width)
        self.dropout = nn.Dropout(DROPOUT)
        self.register_buffer("positions", positions(size), persistent=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        nn.init.normal_(self.embedding.weight, std=size.width**-0.5)

    def embedded(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return sentences, of shape (sentences, length, width), of a batch of tokens."""
        x = self.embedding(tokens.view(-1, self.size.length)) * self.size.width**0.5
        return self.dropout(x + self.positions)

    def forward(self, source: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        """Return the logits of each token after those of ``before``: tokens, vocabulary."""
        memory = self.embedded(source)
        for block in self.encoder:
            memory = block(memory)
        memory = self.encoder_norm(memory)
        x = self.embedded(before)
        for block in self.decoder:
            x = block(x, memory)
        return F.linear(self.decoder_norm(x).flatten(0, 1), self.embedding.weight)


def positions(size: Size) -> torch.Tensor:
    """Return sines and cosines of each position, at wavelengths up to 10000 turns."""
    turns = 10_000.0 ** (-torch.arange(0, size.width, 2) / size.width)
    angles = torch.outer(torch.arange(size.length, dtype=torch.float32), turns)
    return torch.cat((angles.sin(), angles.cos()), dim=1)
