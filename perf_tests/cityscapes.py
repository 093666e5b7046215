"""Cityscapes for every suite: ``leftImg8bit/train`` with the labels of ``gtFine/train``."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pytest_dlperf.worker.failure import WorkerFailure

from .cityscapes_archive import refuse_packed
from .data_folder import candidates, other_format
from .images import normalised, padded, read_image, read_labels, resized

if TYPE_CHECKING:
    from pathlib import Path

    from PIL import Image

IGNORED = 255
#: The ids of labels that are trained, in order: id 7 is class 0, and so on.
TRAINED_IDS = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
IDS = 34
#: PaddleSeg scales images by 0.5 to 2 before it crops.
SCALES = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
#: What becomes 0 by the normalisation, nearly.
GREY = 128
MEAN = STD = (0.5, 0.5, 0.5)
ATTEMPTS = 10


class Street(NamedTuple):
    """One image and its labels: of classes (``labelTrainIds``), or of ids (``labelIds``)."""

    image: Path
    label: Path
    trained: bool


def find_streets(data: str, suite: str) -> list[Street]:
    """Return the training set of ``suite``."""
    for place in candidates(data, suite):
        for folder in (place, place / "cityscapes"):
            if (folder / "leftImg8bit" / "train").is_dir():
                return read_folder(folder)
            refuse_packed(folder)
    raise other_format(data, suite, "folder leftImg8bit/train")


def read_folder(folder: Path) -> list[Street]:
    """Return the images of ``folder`` with their labels."""
    images = sorted((folder / "leftImg8bit" / "train").glob("*/*_leftImg8bit.png"))
    if not images:
        raise WorkerFailure(
            "data-empty",
            f"{folder}/leftImg8bit/train has no <city>/*_leftImg8bit.png; unpack the images there",
        )
    return [_street(folder, image) for image in images]


def _street(folder: Path, image: Path) -> Street:
    name = image.name.removesuffix("_leftImg8bit.png")
    labels = folder / "gtFine" / "train" / image.parent.name
    for suffix, trained in (("labelTrainIds", True), ("labelIds", False)):
        label = labels / f"{name}_gtFine_{suffix}.png"
        if label.is_file():
            return Street(image, label, trained)
    raise WorkerFailure(
        "data-format",
        f"{image} has no labels {labels}/{name}_gtFine_labelTrainIds.png or ..._labelIds.png; "
        "unpack gtFine beside leftImg8bit",
    )


def class_of_label(*, trained: bool) -> np.ndarray:
    """Return 256 entries: the class of each label, ``IGNORED``, or -1 for what is no label."""
    classes = np.full(256, -1, np.int64)
    classes[IGNORED] = IGNORED
    numbers = range(len(TRAINED_IDS))
    if trained:
        classes[: len(TRAINED_IDS)] = numbers
    else:
        classes[:IDS] = IGNORED
        classes[list(TRAINED_IDS)] = numbers
    return classes


class Streets:
    """Training samples: (3, height, breadth) float32, (height, breadth) int64 classes."""

    def __init__(
        self, data: str, suite: str, *, height: int, breadth: int, seed: int | str
    ) -> None:
        self._streets = find_streets(data, suite)
        self._size = (breadth, height)
        self._seed = seed
        self._reads = 0

    def __len__(self) -> int:
        return len(self._streets)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        self._reads += 1
        generator = random.Random(f"{self._seed} {index} {self._reads}")
        street = self._streets[index]
        image, label = read_image(street.image), read_labels(street.label)
        if image.size != label.size:
            raise WorkerFailure(
                "data-image",
                f"{street.label} has {label.width} x {label.height} pixels, its image "
                f"{image.width} x {image.height}; replace it",
            )
        image, classes = self._crop(image, label, street, generator)
        mirrored = generator.random() < 0.5
        pixels = normalised(image, MEAN, STD, mirrored=mirrored)
        return pixels, np.ascontiguousarray(classes[:, ::-1] if mirrored else classes)

    def _crop(
        self, image: Image.Image, label: Image.Image, street: Street, generator: random.Random
    ) -> tuple[Image.Image, np.ndarray]:
        """Return a scaled crop at random, with its classes; what lies beyond is ignored."""
        scale = generator.choice(SCALES)
        width, height = (max(1, round(side / scale)) for side in self._size)
        image, label = padded(image, width, height, GREY), padded(label, width, height, IGNORED)
        attempts = ATTEMPTS
        while True:
            left = generator.randint(0, image.width - width)
            upper = generator.randint(0, image.height - height)
            box = (left, upper, left + width, upper + height)
            classes = self._classes(resized(label, *self._size, box), street)
            attempts -= 1
            # The loss of a batch without a labelled pixel is no number.
            if attempts == 0 or (classes != IGNORED).any():
                return resized(image, *self._size, box), classes

    def _classes(self, label: Image.Image, street: Street) -> np.ndarray:
        values = np.asarray(label)
        classes: np.ndarray = class_of_label(trained=street.trained)[values]
        if (classes < 0).any():
            wrong = int(values[classes < 0][0])
            known = len(TRAINED_IDS) if street.trained else IDS
            raise WorkerFailure(
                "data-label",
                f"{street.label}: label {wrong} is out of range, Cityscapes has 0 to {known - 1} "
                f"here, and {IGNORED} for none; replace the file",
            )
        return classes
