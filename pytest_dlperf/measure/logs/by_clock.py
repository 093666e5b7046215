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
#: A stamp that is earlier by more than this than the one before is of a clock that was set back.
_LATE_S: Final = 1.0
#: What goes back at more than this share of the prints is no clock, but the time of each of them.
_MOST_FALLS: Final = 0.2


def clock_windows(columns: Mapping[str, Floats], resolution: float) -> dict[str, Floats]:
    """Return the windows from stamp to stamp, joined until they are long enough.

    Iterations before the first stamp are in none, nor are those before the first stamp of an
    epoch, or after an evaluation: other things were done as well, and nothing says how many
    iterations an epoch had after its last print. There are none where the stamps are no clock.
    """
    stamped = np.flatnonzero(~np.isnan(columns["at_s"]))
    at_s, last = columns["at_s"][stamped], columns["last"][stamped]
    is_anew = columns["epoch_begins"][stamped] > 0
    falls = np.diff(at_s)[~is_anew[1:]] < 0
    if falls.sum() > _MOST_FALLS * len(falls):
        stamped, at_s, last, is_anew = stamped[:0], at_s[:0], last[:0], is_anew[:0]
    begins, ends = _stretches(at_s, is_anew, FINER * resolution)
    windows = {name: column[stamped[ends]].copy() for name, column in columns.items()}
    windows["first"] = last[begins] + 1
    windows["seconds_each"] = (at_s[ends] - at_s[begins]) / np.maximum(
        1, last[ends] - last[begins]
    )
    return windows


def _stretches(
    at_s: Floats, anew: NDArray[np.bool_], least_s: float
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the indices of stamps and of those that come so long after them, in pairs.

    ``anew`` flags stamps before which something other than iterations was timed.
    """
    begins: list[int] = []
    ends: list[int] = []
    begin = 0
    before_s = -np.inf
    for index, (seconds, is_anew) in enumerate(zip(at_s.tolist(), anew.tolist(), strict=True)):
        # Nothing says how long it took over a clock that was set back.
        if is_anew or seconds < before_s - _LATE_S:
            begin = index
        elif index > begin and seconds - at_s[begin] >= least_s:
            begins.append(begin)
            ends.append(index)
            begin = index
        before_s = seconds
    return np.array(begins, dtype=np.intp), np.array(ends, dtype=np.intp)
