"""What Ultralytics' YOLO and YOLOv5 print of their settings: devices, and the size of images.

https://github.com/ultralytics/ultralytics/blob/main/ultralytics/engine/trainer.py
"""

from __future__ import annotations

import re
from typing import Final

_ANCHORS: Final = (b"engine/trainer: ", b"train: weights=")
_LINE: Final = rb"\b(?:engine/trainer: |train: weights=)[^\n]{0,4000}?\b"
#: ``device=0,1``, ``device=[0, 1]``; nothing or None is what the machine has.
_DEVICE: Final = re.compile(
    _LINE + rb"device=['\"]?(?P<devices>\d{1,3}(?:, ?\d{1,3})*|\[\d{1,3}(?:, ?\d{1,3})*\]|cpu|mps)"
    rb"['\"]?(?=,|\s|$)"
)
_IMAGE: Final = re.compile(_LINE + rb"imgsz=\[?(?P<size>[1-9]\d{0,5})\b")


def devices(block: bytes) -> int | None:
    """Return how many devices the settings in a block name; None if they name none."""
    match = _first(_DEVICE, block)
    return None if match is None else match["devices"].count(b",") + 1


def image_size(block: bytes) -> int | None:
    """Return the pixels of an image's longer side by the settings in a block; None without."""
    match = _first(_IMAGE, block)
    return None if match is None else int(match["size"])


def _first(pattern: re.Pattern[bytes], block: bytes) -> re.Match[bytes] | None:
    return pattern.search(block) if any(anchor in block for anchor in _ANCHORS) else None
