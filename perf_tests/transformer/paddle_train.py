"""Transformer big in Paddle, with the norm before attention and feed-forward network."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F

from .recipe import (
    BETAS,
    DROPOUT,
    EPSILON,
    LABEL_SMOOTHING,
    SIZES,
    Size,
    learning_rate,
    sentences,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_dlperf.worker.frameworks.paddle.job import PaddleJob


class Attention(nn.Layer):  # type: ignore[misc]  # paddle is Any here
    """Multi-head attention, from the decoder to the encoder or within one of them."""

    def __init__(self, size: Size, *, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = size.heads, causal
        self.queries = nn.Linear(size.width, size.width, bias_attr=False)
        self.keys = nn.Linear(size.width, size.width, bias_attr=False)
        self.values = nn.Linear(size.width, size.width, bias_attr=False)
        self.out = nn.Linear(size.width, size.width, bias_attr=False)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: paddle.Tensor, memory: paddle.Tensor) -> paddle.Tensor:
        """Return what each token of ``x`` gathers from ``memory``."""
        head = x.shape[-1] // self.heads
        q, k, v = (
            part(given).reshape([0, 0, self.heads, head]).transpose([0, 2, 1, 3])
            for part, given in ((self.queries, x), (self.keys, memory), (self.values, memory))
        )
        # Written out, as not every device has a kernel of scaled_dot_product_attention.
        scores = paddle.matmul(q * head**-0.5, k, transpose_y=True)
        if self.causal:
            later = paddle.full(scores.shape[-2:], -1e4, dtype=scores.dtype)
            scores = scores + paddle.triu(later, 1)
        mixed = paddle.matmul(self.dropout(F.softmax(scores)), v)
        return self.out(mixed.transpose([0, 2, 1, 3]).flatten(2))


class Block(nn.Layer):  # type: ignore[misc]
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

    def forward(self, x: paddle.Tensor, memory: paddle.Tensor | None = None) -> paddle.Tensor:
        """Return the layer's output, of the shape of ``x``."""
        y = self.norm(x)
        x = x + self.dropout(self.attention(y, y))
        if self.decodes:
            x = x + self.dropout(self.source_attention(self.source_norm(x), memory))
        return x + self.dropout(self.feed_forward(x))


class Transformer(nn.Layer):  # type: ignore[misc]
    """Encoder and decoder; one embedding is that of both languages and the head."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        first = nn.initializer.Normal(std=size.width**-0.5)
        self.embedding = nn.Embedding(size.vocabulary, size.width, weight_attr=first)
        self.encoder = nn.LayerList([Block(size, decodes=False) for _ in range(size.layers)])
        self.encoder_norm = nn.LayerNorm(size.width)
        self.decoder = nn.LayerList([Block(size, decodes=True) for _ in range(size.layers)])
        self.decoder_norm = nn.LayerNorm(size.width)
        self.dropout = nn.Dropout(DROPOUT)
        self.positions = positions(size)

    def embedded(self, tokens: paddle.Tensor) -> paddle.Tensor:
        """Return sentences, of shape (sentences, length, width), of a batch of tokens."""
        x = self.embedding(tokens.reshape([-1, self.size.length])) * self.size.width**0.5
        return self.dropout(x + self.positions.astype(x.dtype))

    def forward(self, source: paddle.Tensor, before: paddle.Tensor) -> paddle.Tensor:
        """Return the logits of each token after those of ``before``: tokens, vocabulary."""
        memory = self.embedded(source)
        for block in self.encoder:
            memory = block(memory)
        memory = self.encoder_norm(memory)
        x = self.embedded(before)
        for block in self.decoder:
            x = block(x, memory)
        x = self.decoder_norm(x).flatten(0, 1)
        return paddle.matmul(x, self.embedding.weight, transpose_y=True)


def positions(size: Size) -> paddle.Tensor:
    """Return sines and cosines of each position, at wavelengths up to 10000 turns."""
    turns = 10_000.0 ** (-np.arange(0, size.width, 2) / size.width)
    angles = np.outer(np.arange(size.length), turns)
    return paddle.to_tensor(np.concatenate((np.sin(angles), np.cos(angles)), 1).astype("float32"))


def build(job: PaddleJob) -> Callable[[], paddle.Tensor]:
    """Return one training iteration on one fixed batch of sentences of one length."""
    size = SIZES[job.size]
    count = sentences(size, job.batch_size_per_device)
    model = job.data_parallel(Transformer(size))
    optimizer = paddle.optimizer.Adam(
        0.0,
        *BETAS,
        EPSILON,
        parameters=model.parameters(),
        multi_precision=job.precision == "pure_fp16",
    )
    random = job.generator()
    source = random.integers(size.vocabulary, size=count * size.length)
    target = random.integers(size.vocabulary, size=(count, size.length + 1))
    arrays = source, target[:, :-1].ravel(), target[:, 1:].ravel()
    batches = itertools.repeat(tuple(paddle.to_tensor(array) for array in arrays))
    job.work(count * size.length)
    steps = itertools.count(1)

    def step() -> paddle.Tensor:
        optimizer.set_lr(learning_rate(size, next(steps)))
        source, before, after = next(batches)
        with job.autocast():
            logits = model(source, before)
        loss = F.cross_entropy(logits.astype("float32"), after, label_smoothing=LABEL_SMOOTHING)
        job.backward(loss, optimizer)
        return loss

    return step
