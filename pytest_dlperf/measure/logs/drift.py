"""Whether printed speeds drift as means since the run began do, where nobody says what they are.

Such a mean moves, from print to print, by the share of its iterations that are new: mostly in one
direction, away from the warm-up, and ever more slowly. What moves so is told better by the
iterations so far than by the print before.
"""

from __future__ import annotations

from itertools import pairwise, product
from typing import TYPE_CHECKING, Final

import numpy as np

from pytest_dlperf.measure.logs.spans import RateSeries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Prints are compared that have so many times the iterations of the one before: closer ones differ
#: by less than their digits, of which some programs print two.
_GROWTHS: Final = (1.1, 1.4)
#: So many of them have to say it.
_FEWEST: Final = 6
#: Of all that they move, such a share is in one direction.
_ONE_WAY: Final = 0.8
#: The iterations so far tell how they move, but for less than this share of it.
_BETTER: Final = 0.75


def rate_as_means(series: RateSeries, *, names_mean: bool) -> float | None:
    """Return work over time if printed rates are means since the run, or the epoch, began.

    None where they do not drift as such means do. Where their name says that they are means they
    need not drift, but move little.
    """
    if len(series) < _FEWEST:
        return None
    each = series.work / series.iterations / series.printed_rate
    begins = np.flatnonzero(series.epoch_begins)
    before = np.concatenate([[0.0], series.last])[begins]
    epoch = np.searchsorted(begins, np.arange(len(series)), side="right")
    in_epoch = series.last - np.concatenate([[0.0], before])[epoch]
    of_mean = (series.label, series.last, in_epoch)
    for counts, growth in product(of_mean, _GROWTHS):
        if not _moves_little(counts, each):
            continue
        iterations, seconds = _totals_of_means(counts, each, growth, names_mean=names_mean)
        if iterations:
            return float(np.mean(series.work / series.iterations)) * iterations / seconds
    return None


def _moves_little(counts: Floats, each: Floats) -> bool:
    """Return whether new iterations, which move a mean, would mostly be twice as long at most."""
    grows = np.diff(counts) > 0
    moves = np.abs(np.diff(each) / each[1:])[grows]
    share = (np.diff(counts) / counts[1:])[grows]
    return len(moves) > 0 and bool(np.median(moves / share) <= 1.0)


def _totals_of_means(
    counts: Floats, each: Floats, growth: float, *, names_mean: bool
) -> tuple[float, float]:
    """Return the iterations after the first print, and their seconds; 0 where there is no drift.

    ``counts`` are the iterations that a mean is over; where they fall, another mean begins.
    """
    cuts = [0, *(np.flatnonzero(np.diff(counts) <= 0) + 1), len(counts)]
    iterations = seconds = drift = by_usual = by_last = by_print = 0.0
    pairs = rises = falls = 0
    for begin, end in pairwise(cuts):
        places = _apart(counts[begin:end], growth)
        n, mean = counts[begin:end][places], each[begin:end][places]
        if len(places) < 2 or n[0] < 1:
            continue
        total, new = n * mean, np.diff(n)
        own = np.diff(total) / new
        # The first step of an epoch may be called 0 or 1: a mean is then of one more.
        if own.min() <= 0 and not names_mean:
            return 0.0, 0.0
        moves, share = np.diff(mean), new / n[1:]
        # Where the new iterations are as usual, or as those before them.
        usual = (np.median(own) - mean[:-1]) * share
        last = (np.concatenate([own[:1], own[:-1]]) - mean[:-1]) * share
        by_usual += float(np.abs(moves - usual).sum())
        by_last += float(np.abs(moves - last).sum())
        by_print += float(np.abs(moves).sum())
        rises, falls = rises + int((moves > 0).sum()), falls + int((moves < 0).sum())
        pairs, drift = pairs + len(moves), drift + float(moves.sum())
        iterations, seconds = iterations + float(new.sum()), seconds + float(np.diff(total).sum())
    # Digits may hide small moves, or make them.
    one_way = max(abs(drift) / max(by_print, 1e-12), max(rises, falls) / max(1, rises + falls))
    is_better = min(by_usual, by_last) <= _BETTER * by_print
    drifts = names_mean or (one_way >= _ONE_WAY and is_better)
    if pairs < _FEWEST or not drifts or seconds <= 0:
        return 0.0, 0.0
    return iterations, seconds


def _apart(counts: Floats, growth: float) -> list[int]:
    """Return the places of counts that are far enough from each other."""
    places: list[int] = []
    for place, count in enumerate(counts.tolist()):
        if not places or count >= growth * counts[places[-1]]:
            places.append(place)
    return places
