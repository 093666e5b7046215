"""Training samples of ImageNet's folders, decoded by Pillow."""

from __future__ import annotations

import random

import numpy as np

from ..data_folder import IMAGENET_MEAN, IMAGENET_STD
from ..images import normalised, read_image, resized
from .folders import find_train, random_box, read_folder


class Images:
    """Training samples: (3, image, image) float32 and the label."""

    def __init__(self, data: str, *, classes: int, image: int, seed: int | str) -> None:
        self._files = read_folder(find_train(data), classes)
        self._image = image
        self._seed = seed
        self._reads = 0

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.int64]:
        self._reads += 1
        generator = random.Random(f"{self._seed} {index} {self._reads}")
        path, label = self._files[index]
        image = read_image(path)
        image = resized(
            image, self._image, self._image, random_box(image.width, image.height, generator)
        )
        mirrored = generator.random() < 0.5
        pixels = normalised(image, IMAGENET_MEAN, IMAGENET_STD, mirrored=mirrored)
        return pixels, np.int64(label)
