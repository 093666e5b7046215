"""BERT in Paddle: predicts masked words, and whether one sentence follows the other."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F

from .recipe import CLIP_NORM, DROPOUT, EPSILON, INITIAL_SD, NORM_EPSILON, SIZES, Size

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_dlperf.worker.frameworks.paddle.job import PaddleJob


def dense(inputs: int, outputs: int) -> nn.Linear:
    """Return a layer whose weights come from a normal distribution; its bias is zero."""
    return nn.Linear(inputs, outputs, weight_attr=nn.initializer.Normal(std=INITIAL_SD))


def embedding(rows: int, width: int) -> nn.Embedding:
    """Return an embedding whose rows come from a normal distribution."""
    return nn.Embedding(rows, width, weight_attr=nn.initializer.Normal(std=INITIAL_SD))


class Attention(nn.Layer):  # type: ignore[misc]  # paddle is Any here
    """Self-attention of all tokens of a sequence."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads, self.head = size.heads, size.width // size.heads
        self.inputs = dense(size.width, 3 * size.width)
        self.out = dense(size.width, size.width)
        self.dropout_p = DROPOUT

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """Return what each token gathers from all; ``x`` is batch, tokens, width."""
        q, k, v = self.inputs(x).reshape([*x.shape[:2], 3, self.heads, self.head]).unbind(2)
        mixed = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout_p if self.training else 0.0, training=self.training
        )
        return self.out(mixed.flatten(2))


class EncoderLayer(nn.Layer):  # type: ignore[misc]
    """Attention and a feed-forward network, each added to its input and then normalised."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.attention = Attention(size)
        self.attention_norm = nn.LayerNorm(size.width, epsilon=NORM_EPSILON)
        self.widen = dense(size.width, size.hidden)
        self.narrow = dense(size.hidden, size.width)
        self.norm = nn.LayerNorm(size.width, epsilon=NORM_EPSILON)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """Return the layer's output, of the shape of ``x``."""
        x = self.attention_norm(x + self.dropout(self.attention(x)))
        return self.norm(x + self.dropout(self.narrow(F.gelu(self.widen(x)))))


class Bert(nn.Layer):  # type: ignore[misc]
    """The encoder with the two heads of pre-training."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.words = embedding(size.vocabulary, size.width)
        self.positions = embedding(size.positions, size.width)
        self.sentences = embedding(2, size.width)
        self.norm = nn.LayerNorm(size.width, epsilon=NORM_EPSILON)
        self.dropout = nn.Dropout(DROPOUT)
        self.layers = nn.Sequential(*(EncoderLayer(size) for _ in range(size.layers)))
        self.pooler = dense(size.width, size.width)
        self.transform = dense(size.width, size.width)
        self.transform_norm = nn.LayerNorm(size.width, epsilon=NORM_EPSILON)
        self.word_bias = self.create_parameter([size.vocabulary], is_bias=True)
        self.follows = dense(size.width, 2)

    def forward(
        self, tokens: paddle.Tensor, sentences: paddle.Tensor, masked: paddle.Tensor
    ) -> tuple[paddle.Tensor, paddle.Tensor]:
        """Return logits of the masked words, and of whether the second sentence follows."""
        positions = self.positions.weight[: tokens.shape[1]]
        x = self.words(tokens) + positions + self.sentences(sentences)
        x = self.layers(self.dropout(self.norm(x)))
        chosen = paddle.gather(x.flatten(0, 1), masked)
        chosen = self.transform_norm(F.gelu(self.transform(chosen)))
        words = paddle.matmul(chosen, self.words.weight, transpose_y=True) + self.word_bias
        return words, self.follows(paddle.tanh(self.pooler(x[:, 0])))


def batch_of(job: PaddleJob, size: Size) -> tuple[paddle.Tensor, ...]:
    """Return one batch of random tokens, of full length and without padding.

    Tokens; the sentence of each, 0 or 1; which tokens are masked, numbered through all
    sequences; the words under the masks; whether the second sentence follows the first.
    """
    count, random = job.batch_size_per_device, job.generator()
    order = random.random((count, size.sequence)).argsort(axis=1)
    masked = np.sort(order[:, : size.predictions], axis=1)
    first = size.sequence * np.arange(count)[:, None]
    second = np.arange(size.sequence) >= size.sequence // 2
    arrays = (
        random.integers(size.vocabulary, size=(count, size.sequence)),
        np.tile(second.astype("int64"), (count, 1)),
        (first + masked).ravel(),
        random.integers(size.vocabulary, size=count * size.predictions),
        random.integers(2, size=count),
    )
    return tuple(paddle.to_tensor(array) for array in arrays)


def build(job: PaddleJob) -> Callable[[], paddle.Tensor]:
    """Return one training iteration: a batch; every ``accumulate`` of them an update."""
    size = SIZES[job.size]
    model = Bert(size)
    optimizer = paddle.optimizer.AdamW(
        size.learning_rate, epsilon=EPSILON, parameters=model.parameters(), weight_decay=0.0
    )
    model = job.data_parallel(model)
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
        optimizer.clear_grad()

    def step() -> paddle.Tensor:
        nonlocal iteration
        iteration += 1
        tokens, sentences, masked, words, follows = next(batches)
        updates = iteration % size.accumulate == 0
        # Ranks exchange gradients once an update.
        alone = job.world_size > 1 and not updates
        with model.no_sync() if alone else contextlib.nullcontext():
            with job.autocast():
                of_words, of_follows = model(tokens, sentences, masked)
            loss = F.cross_entropy(of_words.astype("float32"), words)
            loss = loss + F.cross_entropy(of_follows.astype("float32"), follows)
            part = loss / size.accumulate
            (part if job.scaler is None else job.scaler.scale(part)).backward()
        if updates:
            update()
        return loss

    return step
