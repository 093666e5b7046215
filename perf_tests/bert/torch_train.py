"""BERT in PyTorch: predicts masked words, and whether one sentence follows the other."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional as F

from .recipe import CLIP_NORM, DROPOUT, EPSILON, INITIAL_SD, NORM_EPSILON, SIZES, Size

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_dlperf.worker.frameworks.torch.job import TorchJob


class Attention(nn.Module):  # type: ignore[misc]  # torch is Any here
    """Self-attention of all tokens of a sequence."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.inputs = nn.Linear(size.width, 3 * size.width)
        self.out = nn.Linear(size.width, size.width)
        self.dropout_p = DROPOUT

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what each token gathers from all; ``x`` is batch, tokens, width."""
        q, k, v = self.inputs(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout_p if self.training else 0.0
        )
        return self.out(mixed.transpose(1, 2).flatten(2))


class Layer(nn.Module):  # type: ignore[misc]
    """Attention and a feed-forward network, each added to its input and then normalised."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.attention = Attention(size)
        self.attention_norm = nn.LayerNorm(size.width, eps=NORM_EPSILON)
        self.widen = nn.Linear(size.width, size.hidden)
        self.narrow = nn.Linear(size.hidden, size.width)
        self.norm = nn.LayerNorm(size.width, eps=NORM_EPSILON)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the layer's output, of the shape of ``x``."""
        x = self.attention_norm(x + self.dropout(self.attention(x)))
        return self.norm(x + self.dropout(self.narrow(F.gelu(self.widen(x)))))


class Bert(nn.Module):  # type: ignore[misc]
    """The encoder with the two heads of pre-training."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.words = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Embedding(size.positions, size.width)
        self.sentences = nn.Embedding(2, size.width)
        self.norm = nn.LayerNorm(size.width, eps=NORM_EPSILON)
        self.dropout = nn.Dropout(DROPOUT)
        self.layers = nn.Sequential(*(Layer(size) for _ in range(size.layers)))
        self.pooler = nn.Linear(size.width, size.width)
        self.transform = nn.Linear(size.width, size.width)
        self.transform_norm = nn.LayerNorm(size.width, eps=NORM_EPSILON)
        self.word_bias = nn.Parameter(torch.zeros(size.vocabulary))
        self.follows = nn.Linear(size.width, 2)

    def forward(
        self, tokens: torch.Tensor, sentences: torch.Tensor, masked: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return logits of the masked words, and of whether the second sentence follows."""
        positions = self.positions.weight[: tokens.shape[1]]
        x = self.words(tokens) + positions + self.sentences(sentences)
        x = self.layers(self.dropout(self.norm(x)))
        chosen = x.flatten(0, 1)[masked]
        chosen = self.transform_norm(F.gelu(self.transform(chosen)))
        words = F.linear(chosen, self.words.weight, self.word_bias)
        return words, self.follows(torch.tanh(self.pooler(x[:, 0])))


def initialize(model: Bert) -> None:
    """Fill matrices from a normal distribution, and biases with zero."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=INITIAL_SD)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)


def batch_of(job: TorchJob, size: Size) -> tuple[torch.Tensor, ...]:
    """Return one batch of random tokens, of full length and without padding.

    Tokens; the sentence of each, 0 or 1; which tokens are masked, numbered through all
    sequences; the words under the masks; whether the second sentence follows the first.
    """
    count, random = job.batch_size_per_device, job.generator()

    def numbers(end: int, *shape: int) -> torch.Tensor:
        return torch.randint(end, shape, generator=random, device=job.device)

    order = torch.rand(count, size.sequence, generator=random, device=job.device).argsort(1)
    masked = order[:, : size.predictions].sort(1).values
    first = size.sequence * torch.arange(count, device=job.device)[:, None]
    sentences = torch.arange(size.sequence, device=job.device) >= size.sequence // 2
    return (
        numbers(size.vocabulary, count, size.sequence),
        sentences.long().expand(count, -1).contiguous(),
        (first + masked).flatten(),
        numbers(size.vocabulary, count * size.predictions),
        numbers(2, count),
    )


def build(job: TorchJob) -> Callable[[], torch.Tensor]:
    """Return one training iteration: a batch; every ``accumulate`` of them an update."""
    size = SIZES[job.size]
    model = Bert(size)
    initialize(model)
    model = job.data_parallel(model)
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=size.learning_rate,
        eps=EPSILON,
        weight_decay=0.0,
        fused=job.device.type == "cuda",
    )
    batches = itertools.repeat(batch_of(job, size))
    iteration = 0

    def update() -> None:
        if job.scaler is not None:
            job.scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        if job.scaler is None:
            optimizer.step()
        else:
            job.scaler.step(optimizer)
            job.scaler.update()
        optimizer.zero_grad(set_to_none=True)

    def step() -> torch.Tensor:
        nonlocal iteration
        iteration += 1
        tokens, sentences, masked, words, follows = next(batches)
        updates = iteration % size.accumulate == 0
        # Ranks exchange gradients once an update.
        alone = job.world_size > 1 and not updates
        with model.no_sync() if alone else contextlib.nullcontext():
            with job.autocast():
                of_words, of_follows = model(tokens, sentences, masked)
            loss = F.cross_entropy(of_words.float(), words)
            loss = loss + F.cross_entropy(of_follows.float(), follows)
            part = loss / size.accumulate
            (part if job.scaler is None else job.scaler.scale(part)).backward()
        if updates:
            update()
        return loss

    return step
