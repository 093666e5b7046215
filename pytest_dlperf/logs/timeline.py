"""Readings in, windows of counted iterations out: what a log says happened, in order.

The layer that all formats share. It counts iterations itself, because a printed counter starts
anew each epoch or stands still; takes several ranks that print one step for one; and undoes a
running mean.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytest_dlperf.logs.running import RunningMean

if TYPE_CHECKING:
    from pytest_dlperf.logs.declare import Format, Reading

#: Ranks print a step at about the same time: only the last few steps can come again.
_RECENT: Final = 3
#: More windows than this are joined two by two, so that memory is bounded whatever the log.
MOST_WINDOWS: Final = 1 << 17


@dataclass(kw_only=True, slots=True)
class Window:
    """Iterations ``first`` to ``last`` of the log, counted from 1.

    ``seconds_each`` is exact where the format prints it, else None: then ``rate`` says it all.
    """

    first: int
    last: int
    #: Rate of these iterations alone, and the rate as it stood in the log; in the format's scope.
    rate: float | None
    printed_rate: float | None
    seconds_each: float | None
    wait_each: float | None
    #: Iterations done, by the printed counter.
    label: int
    label_start: int | None
    work_each: float | None = None
    at_s: float | None = None
    prints: int = 1
    epoch_begins: bool = False

    @property
    def iterations(self) -> int:
        """How many iterations it holds."""
        return self.last - self.first + 1


class Timeline:
    """All windows of one log."""

    def __init__(self, form: Format) -> None:
        self.windows: list[Window] = []
        self.loss_last: float | None = None
        self.whole_run: float | None = None
        self.runs = 1
        self.ranks: set[int] = set()
        self.prints = 0
        self.steps = 0
        self.repeats = 0
        self.total: int | None = None
        self.epoch_begins = False
        self.joined = False
        self._format = form
        self._recent: OrderedDict[tuple[int | None, int], Window | None] = OrderedDict()
        self._epoch: int | None = None
        self._step: int | None = None
        self._counted = 0
        self._half: int | None = None
        self._mean = RunningMean(form.running_since)

    @property
    def iterations(self) -> int:
        """Iterations that the log is known to have seen."""
        return self._counted

    @property
    def last_step(self) -> int | None:
        """The last printed step."""
        return self._step

    def add(self, reading: Reading, rank: int | None, at_s: float | None) -> None:
        """Take in a reading, in the order of the log."""
        if reading.whole_run is not None:
            self.whole_run = reading.whole_run
        if rank is not None:
            self.ranks.add(rank)
        step = self._joined_step(reading)
        if step is None:
            return
        if reading.loss is not None:
            self.loss_last = reading.loss
        self.prints += 1
        if self._is_repeat(reading, step, rank):
            return
        first = self._count(reading, step)
        self.steps += 1
        self.total = reading.total
        window = self._window(reading, step, first, at_s)
        self._remember(reading.epoch, step, window)
        if window is not None:
            self.windows.append(window)
            if len(self.windows) > MOST_WINDOWS:
                self._join()

    def _joined_step(self, reading: Reading) -> int | None:
        """Return the step of a reading, that of the line before where two lines make one."""
        if not self._format.two_lines:
            return reading.step if reading.step >= 0 else None
        if reading.step >= 0:
            self._half = reading.step
            return None
        half, self._half = self._half, None
        return half

    def _is_repeat(self, reading: Reading, step: int, rank: int | None) -> bool:
        if self._format.counter == "stalls":
            return rank is not None and rank != min(self.ranks)
        key = (reading.epoch, step)
        if key not in self._recent:
            return False
        self.repeats += 1
        window = self._recent[key]
        if window is not None and reading.rate and window.printed_rate and reading.rate > 0:
            # Ranks measure one speed, each with its own clock.
            window.prints += 1
            of_all = window.printed_rate * (window.prints - 1) + reading.rate
            window.printed_rate = of_all / window.prints
            if self._format.averaging != "running":
                window.rate = window.printed_rate
        return True

    def _remember(self, epoch: int | None, step: int, window: Window | None) -> None:
        self._recent[epoch, step] = window
        if len(self._recent) > _RECENT:
            self._recent.popitem(last=False)

    def _count(self, reading: Reading, step: int) -> int:
        """Count the reading's iterations; return the first of them."""
        done = step + 1 - self._format.first_step
        previous, self._step = self._step, step
        epoch, self._epoch = self._epoch, reading.epoch
        before = self._counted
        self.epoch_begins = epoch is not None and reading.epoch != epoch
        if previous is None:
            self._counted = done
            return self._first_of_log(reading, done)
        if self.epoch_begins and self._format.counter == "epoch" and _later(reading.epoch, epoch):
            self._counted += done
            self._mean.restart()
        elif step < previous or not _later(reading.epoch, epoch):
            self.runs += 1
            self._counted += done
            self._mean.restart()
        else:
            self._counted += max(1, step - previous)
            if len(self.windows) == 1:
                self._start_where_the_log_does(step - previous)
                before = self.windows[0].last
        self._counted = max(self._counted, before + 1)
        return before + 1

    def _first_of_log(self, reading: Reading, done: int) -> int:
        if self._format.warmup_removed:
            return max(1, done)
        return 1 if reading.start is None else max(1, min(reading.start + 1, done))

    def _start_where_the_log_does(self, interval: int) -> None:
        """Count from the first window, where a resumed run's counter is far ahead of it."""
        window = self.windows[0]
        ahead = window.last - interval
        if ahead > 0 and not self._format.warmup_removed:
            window.first, window.last = 1, interval
            self._counted -= ahead

    def _window(
        self, reading: Reading, step: int, first: int, at_s: float | None
    ) -> Window | None:
        rate = reading.rate if reading.rate is not None and reading.rate > 0 else None
        seconds = reading.seconds if reading.seconds is not None and reading.seconds > 0 else None
        if rate is None and seconds is None:
            return None
        own_rate, own_seconds, wait = rate, seconds, reading.data_wait_seconds
        if self._format.averaging == "running":
            own = self._mean.undo(step, rate=rate, seconds=seconds, wait=wait)
            if own is None:
                return None
            own_rate, own_seconds, wait = own.rate, own.seconds, own.wait
            first = self._counted - own.iterations + 1
        elif self._format.averaging == "iteration" and reading.start is None:
            # Only the printed iteration was timed; those between prints were not.
            first = self._counted
        return Window(
            first=first,
            last=self._counted,
            rate=own_rate,
            printed_rate=rate,
            seconds_each=own_seconds,
            wait_each=wait,
            work_each=reading.work,
            label=step + 1 - self._format.first_step,
            label_start=reading.start,
            at_s=at_s,
            epoch_begins=self.epoch_begins,
        )

    def _join(self) -> None:
        """Join windows two by two; sums of work and time stay exact."""
        self.joined = True
        pairs = zip(self.windows[::2], self.windows[1::2], strict=False)
        rest = self.windows[-1:] if len(self.windows) % 2 else []
        self.windows = [_merge(a, b) for a, b in pairs] + rest


def _merge(one: Window, two: Window) -> Window:
    n, m = one.iterations, two.iterations

    def mean(a: float | None, b: float | None) -> float | None:
        return None if a is None or b is None else (a * n + b * m) / (n + m)

    def harmonic(a: float | None, b: float | None) -> float | None:
        return None if a is None or b is None else (n + m) / (n / a + m / b)

    return Window(
        first=two.last - (n + m) + 1,
        last=two.last,
        rate=harmonic(one.rate, two.rate),
        printed_rate=harmonic(one.printed_rate, two.printed_rate),
        seconds_each=mean(one.seconds_each, two.seconds_each),
        wait_each=mean(one.wait_each, two.wait_each),
        work_each=mean(one.work_each, two.work_each),
        label=two.label,
        label_start=one.label_start,
        at_s=two.at_s,
        prints=max(one.prints, two.prints),
        epoch_begins=one.epoch_begins or two.epoch_begins,
    )


def _later(epoch: int | None, before: int | None) -> bool:
    return epoch is None or before is None or epoch >= before
