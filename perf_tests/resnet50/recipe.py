"""ResNet-50 V1.5 as NVIDIA's container trains it: what is the same in every framework."""

from __future__ import annotations

from typing import NamedTuple

MOMENTUM = 0.875
WEIGHT_DECAY = 1 / 32768
LABEL_SMOOTHING = 0.1
DEPTHS = (3, 4, 6, 3)


class Size(NamedTuple):
    """How large the model and its images are, and how the learning rate rises."""

    width: int
    #: Bottlenecks of each stage.
    depths: tuple[int, ...]
    image: int
    classes: int
    #: Learning rate at the end of warm-up, for a global batch of 256 images.
    learning_rate: float
    #: Images seen by the end of warm-up.
    warmup_images: int


SIZES = {
    "full": Size(
        width=64,
        depths=DEPTHS,
        image=224,
        classes=1000,
        learning_rate=0.256,
        warmup_images=8 * 1_281_167,
    ),
    "tiny": Size(
        width=8,
        depths=(1, 1),
        image=32,
        classes=10,
        learning_rate=0.8,
        warmup_images=16,
    ),
}


def learning_rate(size: Size, global_batch: int, iteration: int) -> float:
    """Return the rate at ``iteration``: linear in the batch, and rising during warm-up."""
    risen = min(1.0, iteration * global_batch / size.warmup_images)
    return size.learning_rate * global_batch / 256 * risen
