"""Rates that are a mean which forgets, beside the time of the printed step.

Such a mean follows a change late, and is wrong for long after a run began again. A step has the
same work all along: it is the product that varies least of the time of a step with the printed
rate, where a program prints no mean at all, or with the rate that the mean took in,
``(mean - share * mean of the step before) / (1 - share)``. The time of each step makes its rate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: What is the same for a step differs by its digits alone: half of them by no more than this, and
#: by one of the rate, which is printed as a whole number.
_ROUNDING: Final = 0.005
#: So many steps have to say it.
_FEWEST: Final = 4


def undone(mean: Floats, seconds: Floats, steps: Floats, share: float) -> Floats:
    """Return the rate of each step by its own time; NaN where nothing says its work.

    ``mean`` keeps ``share`` of itself at each of the ``steps``, which are counted from 0.
    """
    work = _work(mean, seconds, steps, share)
    return np.full(len(mean), np.nan) if work is None else work / seconds


def _work(mean: Floats, seconds: Floats, steps: Floats, share: float) -> float | None:
    with np.errstate(all="ignore"):
        plain = mean * seconds
        # The mean begins at 0, and is printed as if it did not.
        corrected = mean * (1 - share**steps)
        took_in = [
            (each[1:] - share * each[:-1]) / (1 - share) * seconds[1:]
            for each in (corrected, mean)
        ]
    follows = np.diff(steps) == 1
    best: tuple[float, float] | None = None
    for products in (plain, *(each[follows] for each in took_in)):
        possible = products[np.isfinite(products) & (products > 0)]
        if len(possible) < _FEWEST:
            continue
        usual = float(np.median(possible))
        varies = float(np.median(np.abs(possible / usual - 1)))
        if best is None or varies < best[0]:
            best = varies, usual
    most = _ROUNDING + 1 / float(np.nanmedian(mean)) if best is not None else 0.0
    return None if best is None or best[0] > most else best[1]
