"""ArcFace as PLSC trains it: what is the same in every framework."""

from __future__ import annotations

from typing import NamedTuple

MARGIN = 0.5
SCALE = 64.0
DROPOUT = 0.4
MOMENTUM = 0.9
WEIGHT_DECAY = 5e-4
DEPTHS = (3, 4, 14, 3)


class Size(NamedTuple):
    """How large the model and its images are, and the learning rate of 1024 images."""

    width: int
    #: Blocks of each stage.
    depths: tuple[int, ...]
    image: int
    embedding: int
    classes: int
    learning_rate: float


SIZES = {
    "full": Size(
        width=64, depths=DEPTHS, image=112, embedding=512, classes=85_742, learning_rate=0.1
    ),
    "tiny": Size(width=8, depths=(1, 1), image=16, embedding=64, classes=1_001, learning_rate=3.2),
}
