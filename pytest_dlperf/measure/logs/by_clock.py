"""Windows of logs that print steps alone: the clock of their lines says how long they took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: A window is so many times longer than what a stamp is rounded to: 5 % at most are rounding.
FINER: Final = 20


def clock_windows(columns: Mapping[str, Floats], resolution: float) -> dict[str, Floats]:
    """Return the windows from stamp to stamp, joined until they are long enough.

    Iterations before the first stamp are in none.
    """
    stamped = np.flatnonzero(~np.isnan(columns["at_s"]))
    at_s, last = columns["at_s"][stamped], columns["last"][stamped]
    ends = _ends(at_s, FINER * resolution)
    windows = {name: column[stamped[ends[1:]]].copy() for name, column in columns.items()}
    windows["first"] = last[ends[:-1]] + 1
    windows["seconds_each"] = np.diff(at_s[ends]) / np.maximum(1, np.diff(last[ends]))
    return windows


def _ends(at_s: Floats, least_s: float) -> NDArray[np.intp]:
    """Return the indices of stamps that are at least so long after the one before."""
    ends: list[int] = []
    for index, seconds in enumerate(at_s.tolist()):
        if not ends or seconds - at_s[ends[-1]] >= least_s:
            ends.append(index)
    return np.array(ends, dtype=np.intp)
