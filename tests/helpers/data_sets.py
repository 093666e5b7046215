"""Small data sets in the suites' real formats, generated with Pillow."""

from __future__ import annotations

import random
from pathlib import Path

from PIL import Image


def write_all(folder: Path) -> Path:
    """Write what every suite reads into its sub-folder of ``folder``, enough for two ranks."""
    kinetics(folder / "tsm")
    cityscapes(folder / "deeplabv3p")
    cityscapes(folder / "hrnet")
    imagenet(folder / "resnet50")
    faces(folder / "arcface")
    return folder


def picture(path: Path, width: int, height: int, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = random.Random(seed).randbytes(width * height * 3)
    Image.frombytes("RGB", (width, height), pixels).save(path)


def kinetics(folder: Path, clips: int = 6, frames: int = 9) -> None:
    lines = []
    for clip in range(clips):
        name = f"some class/video{clip}"
        for frame in range(1, frames + 1):
            picture(
                folder / "rawframes" / name / f"img_{frame:05d}.jpg", 48, 36, clip * 100 + frame
            )
        lines.append(f"{name} {frames} {clip % 10}")
    (folder / "train_frames.list").write_text("\n".join(lines) + "\n", encoding="utf-8")


def cityscapes(folder: Path, streets: int = 6) -> None:
    for street in range(streets):
        # The labels of one city are classes, those of the other ids.
        city, kind = ("aachen", "labelTrainIds") if street % 2 else ("ulm", "labelIds")
        name = f"{city}_{street:06d}_000019"
        picture(folder / f"leftImg8bit/train/{city}/{name}_leftImg8bit.png", 96, 48, street)
        label = Image.new("L", (96, 48), 255)
        label.paste(7, (0, 0, 96, 40))
        path = folder / f"gtFine/train/{city}/{name}_gtFine_{kind}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        label.save(path)


def imagenet(folder: Path, classes: int = 4, images: int = 18) -> None:
    for number in range(classes):
        for image in range(images):
            path = folder / f"train/n{number:08d}/n{number:08d}_{image}.JPEG"
            picture(path, 40, 30, number * 100 + image)


def faces(folder: Path, images: int = 40) -> None:
    lines = []
    for image in range(images):
        picture(folder / f"images/{image:08d}.jpg", 112, 112, image)
        lines.append(f"images/{image:08d}.jpg\t{image * 7}")
    (folder / "label.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
