"""Which fault is planted in a rank's training; imported by the ranks, so without pytest."""

from __future__ import annotations

import os

VARIABLE = "PLANTED_FAULT"


def planted(world_size: int) -> str:
    """Return the fault's name, or nothing: the one-device parent is always right."""
    return os.environ.get(VARIABLE, "") if world_size > 1 else ""
