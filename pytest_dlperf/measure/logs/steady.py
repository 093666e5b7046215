"""Many readings taken in at once, where a log just goes on: the same sums as one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_dlperf.measure.logs.declare import LEAST, MOST, Format
from pytest_dlperf.measure.logs.records import Columns
from pytest_dlperf.measure.logs.running import ROUNDING, RunningState, of_usual_work

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class Before:
    """Where the log stood before these readings."""

    step: int
    epoch: int | None
    counted: int
    #: Steps between the last two prints of an epoch.
    interval: int | None
    running: RunningState
    #: Work of an iteration by its rate and time, in the rate's scope.
    usual_work: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Stride:
    """What the readings add to a log."""

    windows: dict[str, Floats]
    step: int
    epoch: int | None
    counted: int
    interval: int | None
    epoch_begins: bool
    running: RunningState


def stride(columns: Columns, part: slice, before: Before, form: Format) -> Stride | None:
    """Return what the readings of ``part`` add; None where they do not simply go on.

    They do where steps and epochs rise, and a running mean's sum with them.
    """
    step = columns["step"][part]
    if not len(step) or np.isnan(step).any() or np.any(step < 0):
        return None
    epoch = columns["epoch"][part]
    if (
        np.isnan(epoch).any() != (before.epoch is None)
        or np.isnan(epoch).any() != np.isnan(epoch).all()
    ):
        return None
    further = np.diff(step, prepend=before.step)
    later = np.zeros(len(step)) if before.epoch is None else np.diff(epoch, prepend=before.epoch)
    begins = later != 0
    falls = (form.counter == "either") & (further <= 0)
    restarts = begins & ((form.counter == "epoch") | falls)
    if not np.all((later >= 0) & (restarts | (further > 0))):
        return None
    done = step + 1 - form.first_step
    carried = _carried(columns["epoch_steps"][part], step, later, restarts, before, form)
    if carried is None:
        return None
    each = np.maximum(1, np.where(restarts, done, further))
    counted = before.counted + np.cumsum(each + carried.rest)
    windows = _windows(columns, part, form)
    windows["last"] = counted
    windows["first"] = counted - each + 1
    windows["label"] = done
    windows["epoch_begins"] = begins.astype(np.float64)
    running = before.running
    known = ~(np.isnan(windows["rate"]) & np.isnan(windows["seconds_each"]))
    if form.averaging == "running":
        if not known.all():
            return None
        if before.usual_work is not None and form.cost_resolution:
            rate = of_usual_work(
                windows["rate"], windows["seconds_each"], before.usual_work, form.cost_resolution
            )
            windows["rate"] = np.where(np.isnan(rate), windows["rate"], rate)
        undone = _undo(windows, step, restarts, carried, before.running, form.running_since)
        if undone is None:
            return None
        running = undone
    return Stride(
        windows={name: column[known] for name, column in windows.items()},
        step=int(step[-1]),
        epoch=None if before.epoch is None else int(epoch[-1]),
        counted=int(counted[-1]),
        interval=int(further[~restarts][-1]) if not restarts.all() else before.interval,
        epoch_begins=bool(begins[-1]),
        running=running,
    )


def _windows(columns: Columns, part: slice, form: Format) -> dict[str, Floats]:
    rate, seconds = columns["rate"][part], columns["seconds"][part]
    wait = columns["data_wait_seconds"][part]
    rate = np.where((rate > LEAST) & (rate < MOST), rate, np.nan)
    count = len(rate)
    return {
        "rate": rate,
        "printed_rate": rate,
        "seconds_each": np.where((seconds > LEAST) & (seconds < MOST), seconds, np.nan),
        "wait_each": np.where((wait >= 0) & (wait < MOST), wait, np.nan),
        "work_each": columns["work"][part],
        "label_start": columns["start"][part],
        "at_s": np.full(count, np.nan),
        "prints": np.ones(count),
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class _Carried:
    """What each reading's mean has of the epoch before, where one runs on into the next."""

    #: Iterations that came after the last epoch's last print, at an epoch's first.
    rest: Floats
    #: Iterations of the last epoch in the mean, until it is set back.
    count: Floats


def _carried(
    epoch_steps: Floats,
    step: Floats,
    later: Floats,
    restarts: Flags,
    before: Before,
    form: Format,
) -> _Carried | None:
    """Return it by ``running.rest_of_epoch``; None where an epoch is not followed by the next."""
    here = np.flatnonzero(restarts & ~np.isnan(epoch_steps))
    rest, count = np.zeros(len(step)), np.zeros(len(step))
    if not form.carries_over or (not before.running.carried and not len(here)):
        return _Carried(rest=rest, count=count)
    ends = np.concatenate([[before.step], step[:-1]])[here]
    rest[here] = epoch_steps[here] - (ends + 1 - form.first_step)
    interval = before.interval or 0
    known = (rest >= 0) & (rest < max(1, interval)) & (later <= 1)
    if not np.all(known[here]) or np.any(epoch_steps[here] <= form.running_since):
        return None
    # From an epoch's first reading on; 0 where its mean begins anew.
    begins = np.where(restarts, 0.0, np.nan)
    begins[here] = epoch_steps[here] - form.running_since
    latest = np.concatenate([[before.running.carried], begins[restarts]])
    return _Carried(rest=rest, count=latest[np.cumsum(restarts)])


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
    # A row goes on from the one before until the mean is set back, or an epoch begins anew.
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
