"""Reads and crops images with Pillow, the same for PyTorch and Paddle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_dlperf.worker.failure import WorkerFailure

try:
    from PIL import Image, ImageOps
except ImportError as error:
    raise WorkerFailure(
        "data-needs-pillow",
        "--dlperf-data needs Pillow to decode images, and the ranks do not have it; "
        "pip install pillow",
    ) from error

if TYPE_CHECKING:
    from pathlib import Path


def read_image(path: Path) -> Image.Image:
    """Return the decoded image in RGB; raise ``WorkerFailure`` naming a file that is broken."""
    return _decoded(path).convert("RGB")


def read_labels(path: Path) -> Image.Image:
    """Return an image of one byte a pixel, its label; a palette is left aside."""
    image = _decoded(path)
    if image.mode not in {"L", "P"}:
        raise WorkerFailure(
            "data-image",
            f"{path} has pixels of mode {image.mode}, labels are one byte each; replace it",
        )
    return Image.fromarray(np.asarray(image))


def _decoded(path: Path) -> Image.Image:
    try:
        with Image.open(path) as image:
            # Pillow decodes here, not when it opens.
            image.load()
            return image
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
    """Return ``box`` (left, upper, right, lower) of ``image``, scaled; labels are not mixed."""
    labels = image.mode == "L"
    how = Image.Resampling.NEAREST if labels else Image.Resampling.BILINEAR
    return image.resize((width, height), how, box)


def padded(image: Image.Image, width: int, height: int, fill: int) -> Image.Image:
    """Return ``image`` at least so large, with ``fill`` to its right and below."""
    missing = (0, 0, max(0, width - image.width), max(0, height - image.height))
    return ImageOps.expand(image, missing, fill if image.mode == "L" else (fill, fill, fill))


def normalised(
    image: Image.Image, mean: tuple[float, ...], std: tuple[float, ...], *, mirrored: bool
) -> np.ndarray:
    """Return ``image`` as float32 of shape (3, height, width), with mean 0 and deviation 1."""
    pixels = np.asarray(image, np.float32).transpose(2, 0, 1) / 255
    shape = (3, 1, 1)
    pixels = (pixels - np.array(mean, np.float32).reshape(shape)) / np.array(
        std, np.float32
    ).reshape(shape)
    return np.ascontiguousarray(pixels[:, :, ::-1] if mirrored else pixels)
