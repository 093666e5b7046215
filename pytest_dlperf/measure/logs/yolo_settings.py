"""What Ultralytics' YOLO and YOLOv5 print of their devices.

https://github.com/ultralytics/ultralytics/blob/main/ultralytics/engine/trainer.py
"""

from __future__ import annotations

import re
from typing import Final

_ANCHORS: Final = (b"engine/trainer: ", b"train: weights=", b"train: model=")
#: ``device=0,1``, ``device=[0, 1]``; nothing or None is what the machine has.
_DEVICE: Final = re.compile(
    rb"\b(?:engine/trainer: |train: (?:weights|model)=)[^\n]{0,4000}?\bdevice=['\"]?"
    rb"(?P<devices>\d{1,3}(?:, ?\d{1,3})*|\[\d{1,3}(?:, ?\d{1,3})*\]|cpu|mps)['\"]?(?=,|\s|$)"
)


def devices(block: bytes) -> int | None:
    """Return how many devices the settings in a block name; None if they name none."""
    if not any(anchor in block for anchor in _ANCHORS):
        return None
    match = _DEVICE.search(block)
    return None if match is None else match["devices"].count(b",") + 1
