"""Llama 3: widths, depths and the optimizer."""

from __future__ import annotations

from typing import NamedTuple

#: AdamW and its numbers, as torchtitan's training of Llama 3 8B has them.
LEARNING_RATE = 3e-4
BETAS = (0.9, 0.95)
WEIGHT_DECAY = 0.1


class Size(NamedTuple):
    """How large the model and a sequence are."""

    width: int
    layers: int
    heads: int
    #: Heads of keys and values, each shared by several of queries.
    kv_heads: int
    #: Width of the feed-forward network.
    hidden: int
    vocabulary: int
    sequence: int
    #: Base of the rotary embedding's angles.
    rope_base: float
    learning_rate: float = LEARNING_RATE


#: By the option ``model``; of the size tiny there is one.
SIZES = {
    # Llama 3 8B (arXiv 2407.21783, table 3), with its context of pre-training.
    "8b": Size(
        width=4096,
        layers=32,
        heads=32,
        kv_heads=8,
        hidden=14336,
        vocabulary=128_256,
        sequence=8192,
        rope_base=500_000.0,
    ),
    # As wide and deep as GPT-2 medium, with Llama's blocks: it fits on one device.
    "350m": Size(
        width=1024,
        layers=24,
        heads=16,
        kv_heads=8,
        hidden=2816,
        vocabulary=32_000,
        sequence=2048,
        rope_base=500_000.0,
    ),
    "tiny": Size(
        width=64,
        layers=1,
        heads=4,
        kv_heads=2,
        hidden=192,
        vocabulary=256,
        sequence=32,
        rope_base=10_000.0,
        learning_rate=3e-3,
    ),
}


def parameter_count(size: Size) -> int:
    """Return the number of parameters: blocks, their norms, and embedding and head apart."""
    head = size.width // size.heads
    attention = size.width * head * (2 * size.heads + 2 * size.kv_heads)
    block = attention + 3 * size.width * size.hidden + 2 * size.width
    return size.layers * block + size.width + 2 * size.vocabulary * size.width
