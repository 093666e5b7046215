"""The size of training's images, as programs of vision print it."""

from __future__ import annotations

import re
from typing import Final

_BAR: Final = re.compile(
    rb"^\s{0,12}\d{1,9}/\d{1,9}\s{1,12}[\d.]{1,9}G\s[^%\n]{1,200}\s(?P<size>[1-9]\d{1,4}):"
    rb"\s{1,4}\d{1,3}%",
    re.MULTILINE,
)
#: Each with an anchor: a pattern is tried only in blocks that have it.
_SIZES: Final = (
    # YOLO's settings, https://github.com/ultralytics/ultralytics and yolov5
    *(
        (
            anchor,
            re.compile(re.escape(anchor) + rb"[^\n]{0,4000}?\bimgsz=\[?(?P<size>[1-9]\d{0,5})\b"),
        )
        for anchor in (b"engine/trainer: ", b"train: weights=", b"train: model=")
    ),
    # What it says of its loaders, and its bars, which have the size of the last batch
    (b"Image sizes ", re.compile(rb"\bImage sizes (?P<size>[1-9]\d{0,5}) train, \d")),
    (b"it/s", _BAR),
    (b"s/it", _BAR),
    # timm, https://github.com/huggingface/pytorch-image-models/blob/main/timm/data/config.py
    (b"input_size: (", re.compile(rb"\binput_size: \(\d, \d{1,5}, (?P<size>[1-9]\d{0,4})\)")),
    # torchvision's references, DeiT and MAE
    (
        b"Namespace(",
        re.compile(rb"[( ](?:train_crop_size|input_size)=(?P<size>[1-9]\d{0,4})[,)]"),
    ),
)


def image_size(block: bytes) -> int | None:
    """Return the pixels of an image's longer side by a block's settings or bars; None without."""
    for anchor, pattern in _SIZES:
        if anchor in block and (match := pattern.search(block)):
            return int(match["size"])
    return None
