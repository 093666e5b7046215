"""Between which points a change surely lies: as far as the split could be moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Of twice the log likelihood: splits that are less likely than the best by no more than this are
#: kept. Holds the true one in 98 to 100 % of simulated series (levels 2 to 6 % apart, points that
#: vary by 1 %, 30 before and 5 or 30 after).
_LIKELY: Final = 7.35


def split_range(values: Sequence[float]) -> tuple[int, int]:
    """Return the first and the last index at which the new level may begin.

    ``values`` are two levels of one point at least each, with noise of equal size on both.
    """
    logs = np.log(np.asarray(values, dtype=float))
    count = len(logs)
    squares = np.array([_within(logs[:k]) + _within(logs[k:]) for k in range(1, count)])
    # Without noise there is one split, and nothing to divide by
    least = max(float(squares.min()), np.finfo(float).tiny)
    likely = count * np.log(np.maximum(squares, least) / least) < _LIKELY
    indices = np.flatnonzero(likely) + 1
    return int(indices[0]), int(indices[-1])


def _within(logs: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    return float(((logs - logs.mean()) ** 2).sum())
