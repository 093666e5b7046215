"""Recover the rate of each window from logs that print a running mean."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from pytest_dlperf.measure.logs.declare import Format

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


#: What differs by less is rounding.
_ROUNDING: Final = 1e-4
#: Share of a sum that may be rounding.
ROUNDING: Final = 1e-12
#: A sum of times that falls to such a share has begun anew; by rounding it falls by less.
RESTARTED: Final = 0.5
#: What is new in a mean must be so many times more than its rounding.
FINER: Final = 20


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
        # As ``rates_of_usual_work``, which costs much more on single numbers.
        is_odd = abs(rate * seconds / self.usual - 1) > _allowed(seconds, self._resolution)
        return self.usual / seconds if is_odd else rate


def rates_of_usual_work(rate: Floats, seconds: Floats, usual: float, resolution: float) -> Floats:
    """Return the rates of the usual work, also for iterations of another work."""
    odd = np.abs(rate * seconds / usual - 1) > _allowed(seconds, resolution)
    return np.where(odd, usual / seconds, rate)


def _allowed(seconds: Floats | float, resolution: float) -> Floats | float:
    """Return the relative difference that rounding of two times makes."""
    return resolution / seconds + _ROUNDING


@dataclass(frozen=True, kw_only=True, slots=True)
class Own:
    """The last ``iterations`` alone, without those of earlier prints."""

    iterations: int
    rate: float | None
    seconds: float | None
    wait: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningState:
    """The last mean of an epoch: its iterations, and their seconds in all."""

    count: int = 0
    seconds: float = 0.0
    wait: float = 0.0
    #: It has reached the step from which on the mean is that of the epoch.
    warm: bool = False
    #: Iterations of the epoch before that are in the mean until then.
    carried: int = 0


@dataclass(kw_only=True, slots=True)
class Progress:
    """How far a log has come: the state from which the next records are counted."""

    #: The last printed step and epoch.
    step: int | None = None
    epoch: int | None = None
    #: Iterations so far.
    counted: int = 0
    #: Steps between the last two prints of an epoch.
    interval: int | None = None
    #: The last record is the first of its epoch.
    epoch_begins: bool = False
    running: RunningState = field(default_factory=RunningState)


def rest_of_epoch(
    fmt: Format, epoch_steps: int | None, last_step: int, interval: int | None
) -> int | None:
    """Return how many iterations came after an epoch's last print, where its mean runs on.

    None where it does not, or where the epoch ended before its steps did.
    """
    if not fmt.carries_over or epoch_steps is None or epoch_steps <= fmt.running_since:
        return None
    rest = epoch_steps - (last_step + 1 - fmt.first_step)
    return rest if 0 <= rest < (interval or epoch_steps) else None


class RunningMean:
    """The mean of one epoch's iterations from ``since`` on, as it grows."""

    def __init__(self, progress: Progress, fmt: Format) -> None:
        self._progress = progress
        self._since = fmt.running_since
        self._least = fmt.least_seconds
        self._resolution = fmt.resolution * FINER
        self._tick_s = fmt.tick_s
        #: The clock's time where something else ended within a second of it: the next time begins
        #: where the clock moves on, as all times end there.
        self._stands_at_s: float | None = None
        #: How many prints added too little to the mean for its digits.
        self.too_coarse = 0

    @property
    def awaits_tick(self) -> bool:
        """Whether the clock has not moved on since something else than training ended."""
        return self._stands_at_s is not None

    def restart(self) -> None:
        """Begin an epoch."""
        self._stands_at_s = None
        self._progress.running = RunningState()

    def carry_over(self, epoch_steps: int) -> None:
        """Begin an epoch whose mean has the last one's iterations, until it is set back."""
        last, carried = self._progress.running, epoch_steps - self._since
        self._progress.running = replace(
            last if last.warm else RunningState(), warm=False, carried=carried
        )

    def leave_out(self, step: int, seconds: float) -> None:
        """Take the new time in a mean for something other than training."""
        count = step - self._since + 1
        self._progress.running = RunningState(count=count, seconds=seconds * count, warm=True)
        self._stands_at_s = seconds * count if self._tick_s else None

    def undo(
        self, step: int, *, rate: float | None, seconds: float | None, wait: float | None
    ) -> Own | None:
        """Return the mean of the new iterations; None if they are too few, and added to the next.

        A mean rate is the inverse of a mean time, and printed rates have more digits.
        """
        warm = step >= self._since
        last = self._progress.running
        if warm and not last.warm:
            last = RunningState()
        mean = 1 / rate if rate is not None else seconds or 0.0
        count = step - self._since + 1 if warm else last.carried + step + 1
        if last.carried and mean * count <= last.seconds:
            # It did not grow: this program does restart the mean with an epoch.
            last, count = RunningState(), step + 1
        total, waited = mean * count, (wait or 0.0) * count
        if last.warm and total <= RESTARTED * last.seconds:
            # The program was resumed, and its clock with it began anew: the step did not.
            self.leave_out(step, mean)
            return None
        if self._stands_at_s is not None and total - self._stands_at_s < 1.5 * self._tick_s:
            moved_on = total - self._stands_at_s > 0.5 * self._tick_s
            self.leave_out(step, mean)
            if moved_on:
                self._stands_at_s = None
            return None
        self._stands_at_s = None
        new = count - last.count
        grown = total - last.seconds
        least = max(self._least, self._resolution * count)
        self.too_coarse += bool(self._resolution) and grown < self._resolution * count
        if new < 1 or grown <= total * ROUNDING or grown < least:
            return None
        own = grown / new
        own_wait = max(0.0, (waited - last.wait) / new)
        self._progress.running = RunningState(
            count=count, seconds=total, wait=waited, warm=warm, carried=last.carried
        )
        return Own(
            iterations=new,
            rate=None if rate is None else 1 / own,
            seconds=None if seconds is None else seconds * own / mean,
            wait=None if wait is None else own_wait,
        )
