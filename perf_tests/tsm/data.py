"""Kinetics-400 as extracted frames, by the list of PaddleVideo and of TSM's authors."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pytest_dlperf.worker.failure import WorkerFailure

from ..data_folder import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    checked_label,
    fields,
    first_file,
    list_lines,
)
from ..images import normalised, read_image, resized

LISTS = ("train_frames.list", "train_videofolder.txt")
#: Where folders of frames may lie, seen from the list.
FRAME_FOLDERS = (".", "rawframes", "frames")
FRAME = "img_{:05d}.jpg"
#: Sides of the random crop, in shares of the shorter side of a frame (TSM's authors).
CROPS = (1.0, 0.875, 0.75, 0.66)


class Clip(NamedTuple):
    """One video: its folder of frames, how many there are, and its class."""

    folder: Path
    frames: int
    label: int


def read_list(path: Path, classes: int) -> list[Clip]:
    """Return the clips of a list of lines ``frames_folder number_of_frames label``."""
    clips: list[Clip] = []
    for line, where in list_lines(path):
        folder, frames, label = fields(line, where, "frames_folder number_of_frames label")
        if int(frames) < 1:
            raise WorkerFailure(
                "data-line",
                f"{where}: {folder} has {frames} frames; it needs 1 or more; take the line out",
            )
        clips.append(Clip(Path(folder), int(frames), checked_label(int(label), classes, where)))
    home = _home(path, clips[0])
    return [clip._replace(folder=home / clip.folder) for clip in clips]


def _home(path: Path, clip: Clip) -> Path:
    """Return the folder that a list's paths start from."""
    homes = [path.parent / name for name in FRAME_FOLDERS]
    for home in homes:
        if (home / clip.folder).is_dir():
            return home
    raise WorkerFailure(
        "data-format",
        f"{path}: the frames of its first line, {clip.folder}, are not in {path.parent}, nor in "
        f"its {' or '.join(FRAME_FOLDERS[1:])}; extract the frames there",
    )


def segment_indices(frames: int, segments: int, generator: random.Random) -> list[int]:
    """Return a frame's number, 1 to ``frames``, at random from each of ``segments`` equal parts.

    As TSM's authors train: a clip with fewer frames than parts is its first frame.
    """
    length = frames // segments
    if length == 0:
        return [1] * segments
    return [part * length + generator.randrange(length) + 1 for part in range(segments)]


class Clips:
    """Training samples: (segments, 3, image, image) float32 and the label."""

    def __init__(
        self, data: str, *, classes: int, segments: int, image: int, seed: int | str
    ) -> None:
        self._clips = read_list(first_file(data, "tsm", LISTS), classes)
        self._segments = segments
        self._image = image
        self._seed = seed
        self._reads = 0

    def __len__(self) -> int:
        return len(self._clips)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.int64]:
        self._reads += 1
        generator = random.Random(f"{self._seed} {index} {self._reads}")
        clip = self._clips[index]
        numbers = segment_indices(clip.frames, self._segments, generator)
        frames = [read_image(clip.folder / FRAME.format(number)) for number in numbers]
        width, height = frames[0].size
        side = max(1, int(min(width, height) * generator.choice(CROPS)))
        left, upper = generator.randint(0, width - side), generator.randint(0, height - side)
        mirrored = generator.random() < 0.5
        box = (left, upper, left + side, upper + side)
        pixels = [
            normalised(
                resized(frame, self._image, self._image, box),
                IMAGENET_MEAN,
                IMAGENET_STD,
                mirrored=mirrored,
            )
            for frame in frames
        ]
        return np.stack(pixels), np.int64(clip.label)
