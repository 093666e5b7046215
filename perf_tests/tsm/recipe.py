"""TSM as its authors train it: what is the same in every framework."""

from __future__ import annotations

from typing import NamedTuple

SEGMENTS = 8
SHIFT_DIV = 8
DROPOUT = 0.5
MOMENTUM = 0.9
WEIGHT_DECAY = 1e-4
CLIP_NORM = 20.0
DEPTHS = (3, 4, 6, 3)


class Size(NamedTuple):
    """How large the model and its frames are, and the learning rate of one device."""

    width: int
    #: Bottlenecks of each stage.
    depths: tuple[int, ...]
    image: int
    classes: int
    learning_rate: float


SIZES = {
    "full": Size(width=64, depths=DEPTHS, image=224, classes=400, learning_rate=0.0025),
    "tiny": Size(width=8, depths=(1, 1), image=32, classes=10, learning_rate=0.02),
}
