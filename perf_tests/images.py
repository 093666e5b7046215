"""Reads and crops images with Pillow, the same for PyTorch and Paddle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_dlperf.worker.failure import WorkerFailure

try:
    from PIL import Image
except ImportError as error:
    raise WorkerFailure(
        "data-needs-pillow",
        "--dlperf-data needs Pillow to decode images, and the ranks do not have it; "
        "pip install pillow",
    ) from error

if TYPE_CHECKING:
    from pathlib import Path

#: Of ImageNet's channels, in shares of 255.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def read_image(path: Path, mode: str = "RGB") -> Image.Image:
    """Return the decoded image; raise ``WorkerFailure`` naming the file if it cannot be."""
    try:
        with Image.open(path) as image:
            # Pillow decodes here, not before.
            return image.convert(mode)
    # What Pillow raises for a broken file depends on where it is broken.
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise WorkerFailure(
            "data-image",
            f"{path} cannot be read as an image ({type(error).__name__}: {error}); replace it, or "
            "take it out of the data set",
        ) from error


def resized(
    image: Image.Image, width: int, height: int, box: tuple[int, int, int, int]
) -> Image.Image:
    """Return ``box`` (left, upper, right, lower) of ``image``, scaled bilinearly."""
    return image.resize((width, height), Image.Resampling.BILINEAR, box)


def normalised(
    image: Image.Image, mean: tuple[float, ...], std: tuple[float, ...], *, mirrored: bool
) -> np.ndarray:
    """Return ``image`` as float32 of shape (3, height, width), with mean 0 and deviation 1."""
    pixels = np.asarray(image, np.float32).transpose(2, 0, 1) / 255
    shape = (3, 1, 1)
    pixels = (pixels - np.float32(mean).reshape(shape)) / np.float32(std).reshape(shape)
    return np.ascontiguousarray(pixels[:, :, ::-1] if mirrored else pixels)
