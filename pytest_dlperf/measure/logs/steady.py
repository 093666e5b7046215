"""Count many records at once: the vectorised equivalent of ``Timeline.add`` for a steady log."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from pytest_dlperf.measure.logs.declare import FIGURES, LEAST, MOST, Format
from pytest_dlperf.measure.logs.records import Columns
from pytest_dlperf.measure.logs.running import (
    FINER,
    RESTARTED,
    ROUNDING,
    Progress,
    RunningState,
    rates_of_usual_work,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]
    Places = NDArray[np.intp]


#: In place of the print before: the mean begins anew.
_NOWHERE: Final = -2


class Counted(NamedTuple):
    """The windows of records that have a rate, and the iterations that each record is of."""

    windows: dict[str, Floats]
    first: Floats
    last: Floats
    #: How many added too little to a running mean for its digits.
    too_coarse: int = 0


def count_at_once(
    columns: Columns,
    progress: Progress,
    fmt: Format,
    usual_work: float | None,
) -> Counted | None:
    """Return the windows of the records, and move ``progress`` on; None if they are not steady.

    They are if steps and epochs rise, and the sum of a running mean with them. ``usual_work`` is
    the work of an iteration as in ``running.UsualWork``.
    """
    step = columns["step"]
    if progress.step is None or not len(step) or not np.all(step >= 0):
        return None
    epoch = columns["epoch"]
    if (
        np.isnan(epoch).any() != (progress.epoch is None)
        or np.isnan(epoch).any() != np.isnan(epoch).all()
    ):
        return None
    further = np.diff(step, prepend=progress.step)
    later = (
        np.zeros(len(step)) if progress.epoch is None else np.diff(epoch, prepend=progress.epoch)
    )
    begins = later != 0
    falls = (fmt.counter == "either") & (further <= 0)
    restarts = begins & ((fmt.counter == "epoch") | falls)
    goes_on = further >= 0 if fmt.counter == "stalls" else further > 0
    if not np.all((later >= 0) & (restarts | goes_on)):
        return None
    done = step + 1 - fmt.first_step
    carried = _carried(columns["epoch_steps"], step, later, restarts, progress, fmt)
    if carried is None:
        return None
    each = np.maximum(1, np.where(restarts, done, further))
    counted = progress.counted + np.cumsum(each + carried.rest)
    windows = _windows(columns)
    windows["last"] = counted
    windows["first"] = counted - each + 1
    windows["label"] = done
    windows["epoch_begins"] = begins.astype(np.float64)
    running, too_coarse = progress.running, 0
    has_speed = _have_speed(windows, fmt)
    if fmt.averaging == "running":
        if not has_speed.all():
            return None
        if usual_work is not None and fmt.cost_resolution:
            rate = rates_of_usual_work(
                windows["rate"], windows["seconds_each"], usual_work, fmt.cost_resolution
            )
            windows["rate"] = np.where(np.isnan(rate), windows["rate"], rate)
        undone = _undone(windows, step, restarts, carried, progress.running, fmt)
        if undone is None:
            return None
        running, has_speed, too_coarse = undone
    progress.step = int(step[-1])
    progress.epoch = None if progress.epoch is None else int(epoch[-1])
    progress.counted = int(counted[-1])
    if not restarts.all():
        progress.interval = max(1, int(further[~restarts][-1]))
    progress.epoch_begins = bool(begins[-1])
    progress.running = running
    kept = {name: column[has_speed] for name, column in windows.items()}
    return Counted(kept, counted - each + 1, counted, too_coarse)


def _windows(columns: Columns) -> dict[str, Floats]:
    rate, seconds = columns["rate"], columns["seconds"]
    wait, mean = columns["data_wait_seconds"], columns["mean_rate"]
    rate = np.where((rate > LEAST) & (rate < MOST), rate, np.nan)
    return {
        "rate": rate,
        "printed_rate": rate.copy(),
        "seconds_each": np.where((seconds > LEAST) & (seconds < MOST), seconds, np.nan),
        "wait_each": np.where((wait >= 0) & (wait < MOST), wait, np.nan),
        "work_each": columns["work"],
        "mean_rate": np.where((mean > LEAST) & (mean < MOST), mean, np.nan),
        "label_start": columns["start"],
        "at_s": columns["at_s"],
        "prints": columns["prints"] if columns.has("prints") else np.ones(len(rate)),
        **{name: columns[name] for name in FIGURES},
    }


def _have_speed(windows: dict[str, Floats], fmt: Format) -> Flags:
    """Return which windows say how long they took."""
    if fmt.by_clock:
        return ~np.isnan(windows["at_s"])
    return ~(np.isnan(windows["rate"]) & np.isnan(windows["seconds_each"]))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Carried:
    """What each record's mean has of the epoch before, where one runs on into the next."""

    #: Iterations that came after the last epoch's last print, at an epoch's first.
    rest: Floats
    #: Iterations of the last epoch in the mean, until it is set back.
    count: Floats


def _carried(
    epoch_steps: Floats,
    step: Floats,
    later: Floats,
    restarts: Flags,
    progress: Progress,
    fmt: Format,
) -> _Carried | None:
    """Return what ``running.rest_of_epoch`` does; None if an epoch is missing between two."""
    here = np.flatnonzero(restarts & ~np.isnan(epoch_steps))
    rest, count = np.zeros(len(step)), np.zeros(len(step))
    if not fmt.carries_over or (not progress.running.carried and not len(here)):
        return _Carried(rest=rest, count=count)
    ends = np.concatenate([[progress.step], step[:-1]])[here]
    rest[here] = epoch_steps[here] - (ends + 1 - fmt.first_step)
    interval = progress.interval or 0
    follows = (rest >= 0) & (rest < max(1, interval)) & (later <= 1)
    if not np.all(follows[here]) or np.any(epoch_steps[here] <= fmt.running_since):
        return None
    # From an epoch's first record on; 0 where its mean restarts.
    begins = np.where(restarts, 0.0, np.nan)
    begins[here] = epoch_steps[here] - fmt.running_since
    latest = np.concatenate([[progress.running.carried], begins[restarts]])
    return _Carried(rest=rest, count=latest[np.cumsum(restarts)])


class _Undone(NamedTuple):
    """The state after the last mean, which prints have a window, and how many were too coarse."""

    state: RunningState
    has_window: Flags
    too_coarse: int


def _undone(
    windows: dict[str, Floats],
    step: Floats,
    restarts: Flags,
    carried: _Carried,
    before: RunningState,
    fmt: Format,
) -> _Undone | None:
    """Make running means those of their own iterations; None if that is not steady."""
    # A mean that is rounded may have to be taken apart over several prints.
    if not fmt.resolution and not fmt.least_seconds:
        state = _undo(windows, step, restarts, carried, before, fmt.running_since)
        if state is not None:
            return _Undone(state, np.ones(len(step), dtype=bool), 0)
    if fmt.carries_over or _begins_anew(windows, step, restarts, before, fmt):
        return None
    return _undo_each(windows, step, restarts, before, fmt)


def _undo(
    windows: dict[str, Floats],
    step: Floats,
    restarts: Flags,
    carried: _Carried,
    before: RunningState,
    since: int,
) -> RunningState | None:
    """Make running means those of their own iterations; see ``RunningMean.undo``."""
    warm = step >= since
    count = np.where(warm, step - since + 1, step + 1 + carried.count)
    rate, seconds, wait = windows["rate"], windows["seconds_each"], windows["wait_each"]
    mean = np.where(np.isnan(rate), seconds, 1 / rate)
    total, waited = mean * count, np.nan_to_num(wait) * count
    # A row goes on from the one before until the mean is set back, or an epoch restarts it.
    was_warm = np.concatenate([[before.warm], warm[:-1]])
    carries = (carried.count > 0) & was_warm & ~warm
    goes_on = np.where(restarts, carries, warm == was_warm)

    def previous(column: Floats, first: float) -> Floats:
        return np.where(goes_on, np.concatenate([[first], column[:-1]]), 0.0)

    new = count - previous(count, before.count)
    grown = total - previous(total, before.seconds)
    if not np.all((new >= 1) & (grown > total * ROUNDING)):
        return None
    own = grown / new
    windows["rate"] = np.where(np.isnan(rate), np.nan, 1 / own)
    windows["seconds_each"] = seconds * own / mean
    own_wait = np.maximum(0.0, (waited - previous(waited, before.wait)) / new)
    windows["wait_each"] = np.where(np.isnan(wait), np.nan, own_wait)
    windows["first"] = windows["last"] - new + 1
    return RunningState(
        count=int(count[-1]),
        seconds=float(total[-1]),
        wait=float(waited[-1]),
        warm=bool(warm[-1]),
        carried=int(carried.count[-1]),
    )


def _begins_anew(
    windows: dict[str, Floats], step: Floats, restarts: Flags, before: RunningState, fmt: Format
) -> bool:
    """Return whether the time of a mean begins again within an epoch; see ``RunningMean.undo``."""
    rate = windows["rate"]
    mean = np.where(np.isnan(rate), windows["seconds_each"], 1 / rate)
    totals = mean * np.maximum(1, step - fmt.running_since + 1)
    previous = np.concatenate([[before.seconds if before.warm else 0.0], totals[:-1]])
    return bool((~restarts & (totals <= RESTARTED * previous)).any())


class _Means(NamedTuple):
    """What each running mean is of."""

    counts: Floats
    seconds: Floats
    #: From the step on from which the mean is that of the epoch.
    warm: Flags
    restarts: Flags


def _far_enough(means: _Means, least_s: Floats, before: RunningState) -> Places:
    """Return the prints that have ``least_s`` more than the last one that has."""
    follows_warm = np.concatenate([[before.warm], means.warm[:-1]])
    begins = np.flatnonzero(means.restarts | (means.warm & ~follows_warm)).tolist()
    # A sum rounds otherwise than the difference that counts.
    reaches = (means.seconds * (1 + ROUNDING) - least_s).tolist()
    counts, seconds, least = (each.tolist() for each in (means.counts, means.seconds, least_s))
    count, total = before.count, before.seconds
    places = []
    for begin, end in pairwise([0, *begins, len(counts)]):
        place, furthest = begin, [*accumulate(reaches[begin:end], max)]
        while (place := begin + bisect_left(furthest, total, place - begin)) < end:
            grown = seconds[place] - total
            is_new = counts[place] - count >= 1 and grown > seconds[place] * ROUNDING
            if is_new and grown >= least[place]:
                places.append(place)
                count, total = counts[place], seconds[place]
            place += 1
        count, total = 0, 0.0
    return np.array(places, dtype=np.intp)


def _bases(means: _Means, taken: Places, before: RunningState) -> Places:
    """Return the print that each mean goes on from: -1 is the one before all of them."""
    latest = np.concatenate([[-1], taken])[np.searchsorted(taken, np.arange(len(means.counts)))]
    epoch = np.concatenate([np.cumsum(means.restarts), [0]])
    warm = np.concatenate([means.warm, [before.warm]])
    goes_on = (epoch[latest] == epoch[:-1]) & (warm[latest] | ~means.warm)
    return np.where(goes_on, latest, _NOWHERE)


def _undo_each(
    windows: dict[str, Floats],
    step: Floats,
    restarts: Flags,
    before: RunningState,
    fmt: Format,
) -> _Undone | None:
    """Do the same where some prints are too close: their iterations are added to the next."""
    rate, seconds, wait = windows["rate"], windows["seconds_each"], windows["wait_each"]
    warm = step >= fmt.running_since
    counts = np.where(warm, step - fmt.running_since + 1, step + 1)
    mean = np.where(np.isnan(rate), seconds, 1 / rate)
    totals, waited = mean * counts, np.nan_to_num(wait) * counts
    means = _Means(counts, totals, warm, restarts)
    coarse_s = fmt.resolution * FINER * counts
    kept = _far_enough(means, np.maximum(fmt.least_seconds, coarse_s), before)
    base = _bases(means, kept, before)

    def own(column: Floats, first: float) -> Floats:
        """Return what a column has more than at the print before."""
        last = np.where(base < 0, first, column[np.maximum(base, 0)])
        return column - np.where(base == _NOWHERE, 0.0, last)

    grown = own(totals, before.seconds)
    if (warm & (totals <= RESTARTED * (totals - grown))).any():
        return None  # the time of the mean began anew
    count, waited_own = own(counts, before.count)[kept], own(waited, before.wait)[kept]
    own_s = grown[kept] / count
    windows["rate"][kept] = np.where(np.isnan(rate[kept]), np.nan, 1 / own_s)
    windows["seconds_each"][kept] = seconds[kept] * own_s / mean[kept]
    own_wait = np.maximum(0.0, waited_own / count)
    windows["wait_each"][kept] = np.where(np.isnan(wait[kept]), np.nan, own_wait)
    windows["first"][kept] = windows["last"][kept] - count + 1
    has_window = np.zeros(len(step), dtype=bool)
    has_window[kept] = True
    end = int(kept[-1]) if len(kept) else -1
    if restarts[end + 1 :].any():
        state = RunningState()
    elif end < 0:
        state = before
    else:
        state = RunningState(
            count=int(counts[end]),
            seconds=float(totals[end]),
            wait=float(waited[end]),
            warm=bool(warm[end]),
        )
    too_coarse = int((grown < coarse_s).sum()) if fmt.resolution else 0
    return _Undone(state, has_window, too_coarse)
