"""HRNet-W18 as PaddleSeg's benchmark trains it: what is the same in every framework."""

from __future__ import annotations

from typing import NamedTuple

CLASSES = 19
IGNORED = 255
MOMENTUM = 0.9
WEIGHT_DECAY = 5e-4
#: The polynomial schedule ends here in the newest logs of the report.
POLY_ITERATIONS, POLY_POWER = 400, 0.9
#: Gradients of a mean over a million pixels vanish in float16; they are kept this much larger.
PURE_FP16_SCALE = 1024.0


class Stage(NamedTuple):
    """A stage of parallel branches, each at half the resolution of the one before."""

    modules: int
    #: Of each branch of each module.
    blocks: int
    #: Of each branch.
    widths: tuple[int, ...]


class Size(NamedTuple):
    """How large the model and its crops are, and the learning rate."""

    #: Of the stem.
    width: int
    #: Of the first stage, which has one branch.
    bottlenecks: int
    #: Those after it.
    stages: tuple[Stage, ...]
    height: int
    breadth: int
    learning_rate: float


SIZES = {
    "full": Size(
        width=64,
        bottlenecks=4,
        stages=(
            Stage(modules=1, blocks=4, widths=(18, 36)),
            Stage(modules=4, blocks=4, widths=(18, 36, 72)),
            Stage(modules=3, blocks=4, widths=(18, 36, 72, 144)),
        ),
        height=512,
        breadth=1024,
        learning_rate=0.01,
    ),
    "tiny": Size(
        width=8,
        bottlenecks=1,
        # Three branches: the fewest in which a path takes two strides.
        stages=(
            Stage(modules=1, blocks=1, widths=(4, 8)),
            Stage(modules=1, blocks=1, widths=(4, 8, 16)),
        ),
        height=32,
        breadth=64,
        learning_rate=0.1,
    ),
}


def rate(learning_rate: float, iteration: int) -> float:
    """Return the learning rate of an iteration, by the polynomial schedule."""
    # The type says it: to mypy a power of floats may be complex.
    part: float = max(0.0, 1 - iteration / POLY_ITERATIONS) ** POLY_POWER
    return learning_rate * part
