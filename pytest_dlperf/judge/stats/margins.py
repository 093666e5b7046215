"""Shares of throughput, and the distances of logs that they are."""

from __future__ import annotations

import math
import sys
from typing import Final

#: The largest log of a number.
_LARGEST: Final = math.log(sys.float_info.max)


def margin(share: float, sign: int = 1) -> float:
    """Return the log distance of a change for the worse by ``share``; infinite from 100 % on."""
    if sign * share >= 1:
        return math.inf
    return -sign * math.log1p(-sign * share)


def change_of(shift: float) -> float:
    """Return now / before - 1 of a difference of logs; the largest number where that is beyond."""
    return math.expm1(min(shift, _LARGEST))


def share_of(distance: float, sign: int = 1) -> float:
    """Return the change for the worse that a log distance is: the inverse of ``margin``."""
    return -sign * change_of(-sign * distance)
