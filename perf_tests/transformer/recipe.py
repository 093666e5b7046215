"""Transformer big and its training: what is the same in every framework."""

from __future__ import annotations

import math
from typing import NamedTuple

LABEL_SMOOTHING = 0.1
#: Of attention weights, of the feed-forward network, and of what a block adds.
DROPOUT = 0.1
BETAS = (0.9, 0.997)
EPSILON = 1e-9


class Size(NamedTuple):
    """How large the model and a sentence are, and the learning rate's schedule."""

    width: int
    #: Of the encoder, and as many of the decoder.
    layers: int
    heads: int
    #: Width of the feed-forward network.
    hidden: int
    #: One for both languages.
    vocabulary: int
    #: Tokens of a sentence.
    length: int
    #: The largest learning rate, at the end of the warm-up.
    learning_rate: float
    warmup: int


SIZES = {
    # "big" of arXiv 1706.03762, table 3, with the vocabulary of the reports' logs.
    "full": Size(
        width=1024,
        layers=6,
        heads=16,
        hidden=4096,
        vocabulary=33_712,
        length=32,
        learning_rate=0.000846,
        warmup=4000,
    ),
    "tiny": Size(
        width=32,
        layers=1,
        heads=2,
        hidden=64,
        vocabulary=64,
        length=8,
        learning_rate=5e-3,
        warmup=10,
    ),
}


def learning_rate(size: Size, step: int) -> float:
    """Return the rate of ``step``, from 1: a linear warm-up, then the inverse square root."""
    return size.learning_rate * min(step / size.warmup, math.sqrt(size.warmup / step))


def sentences(size: Size, tokens: int) -> int:
    """Return how many sentences have ``tokens`` tokens together."""
    if tokens % size.length:
        raise ValueError(
            f"batch_size_per_device is in tokens, a multiple of {size.length}, not {tokens}"
        )
    return tokens // size.length


def parameter_count(size: Size) -> int:
    """Return the number of parameters; both languages and the head share one embedding."""
    attention = 4 * size.width**2
    feed_forward = 2 * size.width * size.hidden + size.hidden + size.width
    norm = 2 * size.width
    encoder = attention + feed_forward + 2 * norm
    decoder = 2 * attention + feed_forward + 3 * norm
    return size.layers * (encoder + decoder) + 2 * norm + size.vocabulary * size.width
