"""BERT's pre-training as PaddleNLP runs it: what is the same in every framework."""

from __future__ import annotations

from typing import NamedTuple

#: AdamW's numbers in the logs of github.com/PaddlePaddle/Perf, Bert.
LEARNING_RATE = 5e-5
EPSILON = 1e-8
CLIP_NORM = 1.0
#: Of hidden layers and attention, as in the paper's released models (arXiv 1810.04805).
DROPOUT = 0.1
NORM_EPSILON = 1e-12
INITIAL_SD = 0.02


class Size(NamedTuple):
    """How large the model and a sequence are."""

    width: int
    layers: int
    heads: int
    #: Width of the feed-forward network.
    hidden: int
    vocabulary: int
    #: Positions that have an embedding; a sequence may be shorter.
    positions: int
    sequence: int
    #: Masked tokens of a sequence, which are to be predicted.
    predictions: int
    #: Batches whose gradients are summed up for one update.
    accumulate: int
    learning_rate: float = LEARNING_RATE


SIZES = {
    # The vocabulary of 30,522 is filled up to a multiple of 8.
    "full": Size(
        width=768,
        layers=12,
        heads=12,
        hidden=3072,
        vocabulary=30_528,
        positions=512,
        sequence=128,
        predictions=80,
        accumulate=88,
    ),
    "tiny": Size(
        width=32,
        layers=2,
        heads=4,
        hidden=64,
        vocabulary=256,
        positions=32,
        sequence=16,
        predictions=4,
        accumulate=2,
        learning_rate=3e-3,
    ),
}


def parameter_count(size: Size) -> int:
    """Return the number of parameters; the head of words has the embedding's matrix."""
    width = size.width
    norm = 2 * width
    dense = width * width + width
    embeddings = (size.vocabulary + size.positions + 2) * width + norm
    feed_forward = 2 * width * size.hidden + size.hidden + width
    layer = 4 * dense + feed_forward + 2 * norm
    heads = dense + norm + size.vocabulary + 2 * width + 2
    return embeddings + size.layers * layer + dense + heads
