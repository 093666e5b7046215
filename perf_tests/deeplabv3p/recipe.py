"""DeepLabV3+ as PaddleSeg's benchmark trains it: what is the same in every framework."""

from __future__ import annotations

from typing import NamedTuple

CLASSES = 19
IGNORED = 255
ASPP_RATIOS = (1, 12, 24, 36)
#: Of the blocks of each stage; the last has the multi-grid 1-2-4.
DILATIONS = ((1,) * 3, (1,) * 4, (2,) * 6, (4, 8, 16))
MOMENTUM = 0.9
WEIGHT_DECAY = 4e-5
#: The poly schedule ends here in the report's logs.
POLY_ITERATIONS, POLY_POWER = 200, 0.9
#: Gradients of a mean over a million pixels vanish in float16; they are kept this much larger.
PURE_FP16_SCALE = 1024.0


class Size(NamedTuple):
    """How large the model and its crops are, and the learning rate."""

    #: Width of the first stage; the head's widths follow it.
    width: int
    #: Of each bottleneck of each stage.
    dilations: tuple[tuple[int, ...], ...]
    #: Of the branches of ASPP.
    ratios: tuple[int, ...]
    height: int
    breadth: int
    learning_rate: float


SIZES = {
    "full": Size(
        width=64,
        dilations=DILATIONS,
        ratios=ASPP_RATIOS,
        height=512,
        breadth=1024,
        learning_rate=0.01,
    ),
    "tiny": Size(
        width=8,
        dilations=((1,), (2,)),
        ratios=(1, 2),
        height=32,
        breadth=64,
        learning_rate=0.2,
    ),
}
