"""A printed rate that is the last batch over a mean time, where that batch was a smaller one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: What differs by less is rounding.
_ROUNDING: Final = 1e-4


class UsualWork:
    """The work of an iteration by rate and time of a log's first line that has both."""

    def __init__(self, resolution: float) -> None:
        """``resolution`` is the format's ``cost_resolution``; 0 leaves rates as they are."""
        self.usual: float | None = None
        self._resolution = resolution

    def usual_rate(self, rate: float | None, seconds: float | None) -> float | None:
        """Return the rate, that of the usual work where the printed one is of another."""
        if rate is None or seconds is None or not self._resolution:
            return rate
        if self.usual is None:
            work, whole = rate * seconds, round(rate * seconds)
            near = abs(work - whole) <= _allowed(seconds, self._resolution) * work
            self.usual = float(whole) if near and whole else work
        rates = of_usual_work(np.array(rate), np.array(seconds), self.usual, self._resolution)
        return float(rates)


def of_usual_work(rate: Floats, seconds: Floats, usual: float, resolution: float) -> Floats:
    """Return the rates, where one is of another work that of the usual work."""
    odd = np.abs(rate * seconds / usual - 1) > _allowed(seconds, resolution)
    return np.where(odd, usual / seconds, rate)


def _allowed(seconds: Floats | float, resolution: float) -> Floats | float:
    """Return the relative difference that rounding of two times makes."""
    return resolution / seconds + _ROUNDING
