"""ImageNet as folders of JPEG images, ``train/<wnid>/*.JPEG``; what is read before decoding."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_dlperf.worker.failure import WorkerFailure

from ..data_folder import LabelledFile, candidates, other_format

if TYPE_CHECKING:
    import random
    from pathlib import Path

SUFFIXES = (".jpeg", ".jpg", ".png")
#: Of the crop: its share of the image's area, and its width over its height.
AREA = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
ATTEMPTS = 10


def find_train(data: str) -> Path:
    """Return the folder ``train`` of the data set."""
    for folder in candidates(data, "resnet50"):
        train = folder / "train"
        if train.is_dir() and any(entry.is_dir() for entry in train.iterdir()):
            return train
    raise other_format(data, "resnet50", "folder train/ with one folder a class")


def read_folder(train: Path, classes: int) -> list[LabelledFile]:
    """Return the images below ``train``; the folders in order of name are the classes."""
    folders = sorted(entry for entry in train.iterdir() if entry.is_dir())
    if len(folders) > classes:
        raise WorkerFailure(
            "data-label",
            f"{train} has {len(folders)} folders, so label {len(folders) - 1} is out of range, "
            f"the model has the classes 0 to {classes - 1}; take a size (--dlperf-size) with as "
            "many classes",
        )
    found = [
        LabelledFile(path, label)
        for label, folder in enumerate(folders)
        for path in sorted(folder.iterdir())
        if path.suffix.lower() in SUFFIXES
    ]
    if not found:
        raise WorkerFailure(
            "data-empty", f"{train} has no image in its {len(folders)} folders; put JPEGs there"
        )
    return found


def random_box(width: int, height: int, generator: random.Random) -> tuple[int, int, int, int]:
    """Return left, upper, right, lower of a crop at random in size, shape and place."""
    for _ in range(ATTEMPTS):
        area = width * height * generator.uniform(*AREA)
        ratio = math.exp(generator.uniform(*map(math.log, RATIO)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, upper = generator.randint(0, width - w), generator.randint(0, height - h)
            return left, upper, left + w, upper + h
    side = min(width, height)
    left, upper = (width - side) // 2, (height - side) // 2
    return left, upper, left + side, upper + side
