"""Count the iterations of a log: from the records of its lines to windows of iterations.

All formats share it. It counts by itself, because a printed counter may restart with each epoch or
stay the same; it takes several ranks that print one step for one; and it undoes a running mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pytest_dlperf.measure.logs.bars import Bars
from pytest_dlperf.measure.logs.declare import Format, LogRecord, measured, waited
from pytest_dlperf.measure.logs.pieces import Prints, pieces
from pytest_dlperf.measure.logs.ranks import Ranks, whole_steps
from pytest_dlperf.measure.logs.records import Columns
from pytest_dlperf.measure.logs.running import Progress, RunningMean, UsualWork, rest_of_epoch
from pytest_dlperf.measure.logs.shapes import Row
from pytest_dlperf.measure.logs.steady import count_at_once
from pytest_dlperf.measure.logs.trained import Stretches, Untrained
from pytest_dlperf.measure.logs.windows import LogWindow, LogWindows

#: The last steps of a piece are counted one by one, since ranks may print them again.
_LATEST: Final = 3
#: The first windows too, since they show where the log begins.
_EARLIEST: Final = 8
#: Fewer records than this cost less one by one.
_FEWEST: Final = 64
#: Steps that fall so often, and mostly go on beyond all before, are of writers beside each other.
_RETURNS: Final = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """Which lines of a log are counted; None: the choice is made as the log is read."""

    #: A rank, as in ``Ranks``.
    lead: int | None = None
    #: The total of a progress bar, as in ``Bars``.
    bar_total: int | None = None


class Timeline:
    """The windows of one log, made of its records in their order."""

    def __init__(self, fmt: Format, counted: Counted) -> None:
        self.windows = LogWindows()
        self.loss_last: float | None = None
        self.whole_run: float | None = None
        self.runs = 1
        #: How often a step that fell was followed by one beyond all steps before it.
        self._returns = 0
        self._furthest = (-1, -1)
        self.ranks = Ranks(fmt, counted.lead)
        self.bars = Bars(fmt, counted.bar_total)
        self.untrained = Untrained(fmt)
        self.prints = 0
        self.steps = 0
        self.total: int | None = None
        self.epochs: int | None = None
        self.epoch_steps: int | None = None
        self._format = fmt
        self._progress = Progress()
        self._of_first = 0
        #: The first print says itself that its iterations are the first of the run.
        self._begins_at_0 = False
        self._work = UsualWork(fmt.cost_resolution)
        #: Prints that include the time of something other than training.
        self.left_out = 0
        #: Iterations whose speed is there, and is no number of the pattern that reads it.
        self._unread = Stretches()
        self._mean = RunningMean(self._progress, fmt)

    @property
    def iterations(self) -> int:
        """Iterations that the log is known to have seen, from its first print on."""
        return self._progress.counted if self.steps > 1 else self._of_first

    def unread_share(self, first: float, last: float | None) -> float:
        """Return the share of iterations whose speed was not read; None: to the end of the log."""
        end: float = max(self._progress.counted, self._unread.last)
        end = end if last is None else min(end, last)
        return self._unread.within(first, end)[0] / max(1.0, end - first + 1)

    @property
    def coarse(self) -> bool:
        """Whether prints were left out because a mean has too few digits to show what is new."""
        return self._mean.too_coarse > 0

    @property
    def several_runs(self) -> bool:
        """Whether the log holds more than one run."""
        return self.runs > 1 or self.bars.two_trainings or self.bars.is_resumed

    @property
    def has_several_writers(self) -> bool:
        """Whether steps go back and on again as those of ranks that are not in step do."""
        return self._returns >= _RETURNS and 2 * self._returns >= self.runs - 1

    @property
    def says_training(self) -> bool:
        """Whether the log has words of training, besides its steps."""
        return self.loss_last is not None or self.whole_run is not None or self.bars.are_announced

    @property
    def last_epoch(self) -> int | None:
        """The last printed epoch."""
        return self._progress.epoch

    @property
    def last_step(self) -> int | None:
        """The last printed step."""
        return self._progress.step

    @property
    def epoch_ends_early(self) -> bool:
        """Whether at least one more print was to come in the last epoch."""
        at = self._progress
        if at.step is None or self.epoch_steps is None or at.interval is None:
            return False
        return at.step + 1 - self._format.first_step + at.interval <= self.epoch_steps

    def add(self, columns: Columns) -> None:
        """Take in the records of a block, in the order of the log."""
        for begin, end in pieces(columns):
            self._add_piece(columns, begin, end)

    def _add_piece(self, columns: Columns, begin: int, end: int) -> None:
        """Take in some of the records, at once where they are steady, else by halves."""
        while begin < end and not self._is_begun:
            self._add(columns.row(begin))
            begin += 1
        if end - begin >= _FEWEST:
            piece = columns.part(begin, end)
            prints = Prints(piece)
            leads = self.ranks.leads(prints.columns)
            places = None if leads is None else whole_steps(prints.columns, leads, _LATEST)
            is_taken = False
            if leads is not None and places is not None:
                first, last = prints.places[leads[[*places]]].tolist()
                for index in range(begin, begin + first):
                    self._add(columns.row(index))
                is_taken = self._add_at_once(piece.part(first, last))
                begin += last if is_taken else first
            if not is_taken:
                half = (begin + end) // 2
                self._add_piece(columns, begin, half)
                self._add_piece(columns, half, end)
                return
        for index in range(begin, end):
            self._add(columns.row(index))

    @property
    def _is_begun(self) -> bool:
        """Whether it is known where the log begins, and nothing waits for the next print."""
        # Where only the whole run has a rate there is no window.
        begun = self.steps if self._format.averaging == "whole" else len(self.windows)
        # An evaluation's time is in the record after it.
        waits = self.bars.aside or self.untrained.has_words or self._mean.awaits_tick
        return begun >= _EARLIEST and not waits

    def _add_at_once(self, columns: Columns) -> bool:
        """Take in records of which the first is of a new step; False if they are not steady."""
        if "unread" in columns:
            return False
        fmt, prints = self._format, Prints(columns)
        leads = self.ranks.leads(prints.columns)
        joined = None if leads is None else self.ranks.joined(prints.columns, leads)
        drawn = self.bars.drawn(columns)
        if leads is None or joined is None or drawn is None:
            return False
        steps, before = joined.columns, self._progress.counted
        counted = count_at_once(steps, self._progress, fmt, self._work.usual)
        if counted is None:
            return False
        self.ranks.take(joined, columns["rank"])
        self.bars.take(drawn)
        self.untrained.take_columns(steps, counted.first, counted.last)
        places = prints.places[leads]
        losses = columns["loss"].copy()
        losses[np.setdiff1d(prints.places, places, assume_unique=True)] = np.nan
        if fmt.bar:
            steps_before = np.searchsorted(places, np.arange(columns.length), side="right")
            counts = np.concatenate([[before], counted.last])[steps_before]
            self.untrained.take_samples(losses, columns["grad_norm"], counts)
            losses = columns["loss"]
        self._mean.too_coarse += counted.too_coarse
        self.prints += prints.columns.length
        self.steps += steps.length
        ends = (steps[name][-1] for name in ("total", "epochs", "epoch_steps"))
        lengths = [None if np.isnan(end) else int(end) for end in ends]
        self.total, self.epochs, self.epoch_steps = lengths
        printed = losses[~np.isnan(losses)]
        if len(printed):
            self.loss_last = float(printed[-1])
        self.windows.extend(counted.windows)
        return True

    def _add(self, row: Row) -> None:
        record, rank, at_s = row
        if self._is_of_words(record, rank):
            return
        if record.whole_run is not None:
            self.whole_run = record.whole_run
        if rank is not None:
            self.ranks.lines[rank] += 1
        step = record.step if record.step >= 0 else None
        progress = self._progress
        self._hear_loss(record, step)
        if step is None:
            self._note_unread(record, 0)
        if self._is_aside(record, step) or step is None:
            return
        self.prints += 1
        if self.ranks.is_repeat(record, step, rank):
            return
        if record.loss is not None:
            self.loss_last = record.loss
        last_step = progress.step
        first = self._count(record, step)
        self.untrained.take(record, first, progress.counted)
        self._note_unread(record, first)
        self.steps += 1
        self.total, self.epochs = record.total, record.epochs
        self.epoch_steps = record.epoch_steps
        window = None
        restarts = progress.epoch_begins and last_step is not None and step <= last_step
        restarts = restarts and not self._format.spans_epochs
        left_out = self.bars.aside and not restarts
        self.left_out += left_out
        if left_out and not self._format.by_clock:
            # The window, or the mean of the run, includes the time of the other activity.
            self._mean.leave_out(step, record.seconds or 0.0)
        else:
            # By the clock, what follows begins at its stamp.
            progress.epoch_begins = progress.epoch_begins or left_out
            window = self._window(record, step, first, at_s)
        self.bars.aside = False
        self.ranks.remember(record, step, window)
        if window is not None:
            self.windows.append(window)

    def _is_aside(self, record: LogRecord, step: int | None) -> bool:
        """Return whether a record is not of training."""
        progress = self._progress
        is_aside = self.bars.is_aside(record, progress.epoch, begun=progress.step is not None)
        if is_aside and step is not None and self.bars.drawn_after == step:
            # What follows begins here, if it goes on in this epoch.
            self._mean.leave_out(step, record.seconds or 0.0)
        return is_aside

    def _note_unread(self, record: LogRecord, first: int) -> None:
        """Take in a speed that was not read: from an iteration on, or (0) of the next step."""
        if not record.unread:
            return
        last = self._progress.counted
        if not first:  # the step whose speed is on a line of its own
            first = max(last, self._unread.last) + 1
            last = first - 1 + (self._progress.interval or 1)
        self._unread.add(first, last, last - first + 1)

    def _is_of_words(self, record: LogRecord, rank: int | None) -> bool:
        """Take in words of iterations that trained nothing; return whether they are all it has."""
        has_skips = record.skip_word is not None or record.skipped_in_all is not None
        has_losses = record.not_finite is not None or record.other_loss_lost is not None
        if not has_skips and (record.step >= 0 or not has_losses):
            return False
        if self.ranks.is_counted(rank):
            self.untrained.hear(record)
        return record.step < 0

    def _hear_loss(self, record: LogRecord, step: int | None) -> None:
        """Take in a loss that may be printed apart from the steps."""
        if record.loss is not None and (self._format.bar or step is None):
            self.loss_last = record.loss
        if self._format.bar and record.step < 0:
            self.untrained.sample(record, self._progress.counted)

    def _count(self, record: LogRecord, step: int) -> int:
        """Count the record's iterations; return the first of them."""
        progress = self._progress
        done = step + 1 - self._format.first_step
        previous, progress.step = progress.step, step
        epoch, progress.epoch = progress.epoch, record.epoch
        place = (-1 if record.epoch is None else record.epoch, step)
        if place > self._furthest:
            self._returns += (-1 if epoch is None else epoch, previous or 0) < self._furthest
            self._furthest = place
        before = progress.counted
        progress.epoch_begins = epoch is not None and record.epoch != epoch
        if previous is None:
            progress.counted = done
            self._begins_at_0 = record.start == 0
            first = self._first_of_log(record, done)
            # One print alone does not show how many iterations it is of.
            self._of_first = 1 if first == 1 and record.start is None else done - first + 1
            return first
        counter = self._format.counter
        restarts = counter == "epoch" or (counter == "either" and step <= previous)
        if progress.epoch_begins and restarts and _later(record.epoch, epoch):
            before += self._begin_epoch(record, previous)
            progress.counted = before + done
        elif step < previous or not _later(record.epoch, epoch):
            self.runs += 1
            progress.counted += done
            self._mean.restart()
        else:
            progress.interval = interval = max(1, step - previous)
            progress.counted += interval
            if self.steps == 1 and not (self._format.warmup_removed or self._begins_at_0):
                before = self._start_where_the_log_does(interval)
        progress.counted = max(progress.counted, before + 1)
        return before + 1

    def _begin_epoch(self, record: LogRecord, last_step: int) -> int:
        """Return how many iterations the last epoch had after its last print.

        0 if that is unknown, or does not matter.
        """
        rest = rest_of_epoch(self._format, record.epoch_steps, last_step, self._progress.interval)
        if rest is None:
            self._mean.restart()
            return 0
        self._mean.carry_over(record.epoch_steps or 0)
        return rest

    def _first_of_log(self, record: LogRecord, done: int) -> int:
        if self._format.warmup_removed:
            return max(1, done)
        return 1 if record.start is None else max(1, min(record.start + 1, done))

    def _start_where_the_log_does(self, interval: int) -> int:
        """Count from the first print of a resumed run, whose counter is far ahead.

        Return the iterations of that print: no more than there are between two prints.
        """
        done = min(self._progress.counted - interval, interval)
        self._progress.counted = done + interval
        if len(self.windows):
            window = self.windows.only
            window.first, window.last = 1, done
        self.untrained.begin_at(done)
        self._unread.begin_at(done)
        return done

    def _window(
        self, record: LogRecord, step: int, first: int, at_s: float | None
    ) -> LogWindow | None:
        rate, seconds = measured(record.rate), measured(record.seconds)
        if rate is None and seconds is None and (not self._format.by_clock or at_s is None):
            return None
        own_rate, own_seconds, wait = rate, seconds, waited(record.data_wait_seconds)
        if self._format.averaging == "running":
            usual = self._work.usual_rate(rate, seconds)
            own = self._mean.undo(step, rate=usual, seconds=seconds, wait=wait)
            if own is None:
                return None
            own_rate, own_seconds, wait = own.rate, own.seconds, own.wait
            first = self._progress.counted - own.iterations + 1
        return LogWindow(
            first=first,
            last=self._progress.counted,
            rate=own_rate,
            printed_rate=rate,
            seconds_each=own_seconds,
            wait_each=wait,
            work_each=record.work,
            mean_rate=measured(record.mean_rate),
            label=step + 1 - self._format.first_step,
            label_start=record.start,
            at_s=at_s,
            epoch_begins=self._progress.epoch_begins,
            memory_bytes=record.memory_bytes,
            tflops=record.tflops,
            mfu=record.mfu,
            grad_norm=record.grad_norm,
        )


def _later(epoch: int | None, before: int | None) -> bool:
    return epoch is None or before is None or epoch >= before
