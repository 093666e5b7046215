"""Whether printed speeds drift as means since the run began do, where nobody says what they are.

Such a mean moves, from print to print, by the share of its iterations that are new: mostly in one
direction, away from the warm-up, and ever more slowly. What moves so is told better by the
iterations so far than by the print before.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from pytest_dlperf.measure.logs.spans import RateSeries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Prints are compared that have so many times the iterations of the one before: closer ones differ
#: by less than their digits.
_GROWTH: Final = 1.1
#: So many of them have to say it.
_FEWEST: Final = 6
#: Such a share of them moves in one direction.
_ONE_WAY: Final = 0.8
#: They move by less than this share of what the print before would make of them.
_BETTER: Final = 0.75


def rate_as_means(series: RateSeries) -> float | None:
    """Return work over time if printed rates are means since the run, or the epoch, began.

    None where they do not drift as such means do.
    """
    each = series.work / series.iterations / series.printed_rate
    begins = np.flatnonzero(series.epoch_begins)
    before = np.concatenate([[0.0], series.last])[begins]
    epoch = np.searchsorted(begins, np.arange(len(series)), side="right")
    in_epoch = series.last - np.concatenate([[0.0], before])[epoch]
    for counts in (series.label, series.last, in_epoch):
        iterations, seconds = _totals_of_means(counts, each)
        if iterations:
            return float(np.mean(series.work / series.iterations)) * iterations / seconds
    return None


def _totals_of_means(counts: Floats, each: Floats) -> tuple[float, float]:
    """Return the iterations after the first print, and their seconds; 0 where there is no drift.

    ``counts`` are the iterations that a mean is over; where they fall, another mean begins.
    """
    cuts = [0, *(np.flatnonzero(np.diff(counts) <= 0) + 1), len(counts)]
    iterations = seconds = moved = by_count = by_print = 0.0
    pairs = rises = 0
    for begin, end in pairwise(cuts):
        places = _apart(counts[begin:end])
        n, mean = counts[begin:end][places], each[begin:end][places]
        if len(places) < 2 or n[0] < 1:
            continue
        total, new = n * mean, np.diff(n)
        own = np.diff(total) / new
        if own.min() <= 0:
            return 0.0, 0.0
        moves = np.diff(mean)
        expected = (np.median(own) - mean[:-1]) * new / n[1:]
        by_count += float(np.abs(moves - expected).sum())
        by_print += float(np.abs(moves).sum())
        moved += float(moves.sum())
        # What does not move is below the digits.
        pairs, rises = pairs + int((moves != 0).sum()), rises + int((moves > 0).sum())
        iterations, seconds = iterations + float(new.sum()), seconds + float(np.diff(total).sum())
    one_way = max(rises, pairs - rises) >= _ONE_WAY * pairs
    if pairs < _FEWEST or not one_way or by_count > _BETTER * by_print:
        return 0.0, 0.0
    return iterations, seconds


def _apart(counts: Floats) -> list[int]:
    """Return the places of counts that are far enough from each other."""
    places: list[int] = []
    for place, count in enumerate(counts.tolist()):
        if not places or count >= _GROWTH * counts[places[-1]]:
            places.append(place)
    return places
