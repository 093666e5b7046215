"""Aligned faces of 112x112 by a list of ``path label``, as PLSC reads them."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from ..data_folder import LabelledFile, checked_label, fields, first_file, list_lines
from ..images import normalised, read_image, resized

LISTS = ("label.txt", "train.txt", "train_list.txt")
#: Pixels become -1 to 1.
MEAN = STD = (0.5, 0.5, 0.5)


def read_list(path: Path, classes: int) -> list[LabelledFile]:
    """Return the faces of a list of lines ``path label``; paths start from the list's folder."""
    faces: list[LabelledFile] = []
    for line, where in list_lines(path):
        name, label = fields(line, where, "path label")
        checked = checked_label(int(label), classes, where)
        faces.append(LabelledFile(path.parent / Path(name), checked))
    return faces


class Faces:
    """Training samples: (3, image, image) float32 and the label."""

    def __init__(self, data: str, *, classes: int, image: int, seed: int | str) -> None:
        self._faces = read_list(first_file(data, "arcface", LISTS), classes)
        self._image = image
        self._seed = seed
        self._reads = 0

    def __len__(self) -> int:
        return len(self._faces)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.int64]:
        self._reads += 1
        mirrored = random.Random(f"{self._seed} {index} {self._reads}").random() < 0.5
        path, label = self._faces[index]
        image = read_image(path)
        if image.size != (self._image, self._image):
            image = resized(image, self._image, self._image, (0, 0, *image.size))
        return normalised(image, MEAN, STD, mirrored=mirrored), np.int64(label)
