"""Find which progress bar of a log is training's: evaluation and preparation have others.

Bars go to standard error and words to standard output, and if that is buffered all words of a run
may come at its end. So the place of a word alone is weak evidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from pytest_dlperf.measure.logs.declare import Format, LogRecord
from pytest_dlperf.measure.logs.records import Columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Bars beyond so many are not remembered.
_MOST_BARS: Final = 64
#: Seconds by which two clocks that show whole seconds may differ.
_CLOCK_SECONDS: Final = 2
#: The run's own account of its time has what is done before and after its bar.
_ACCOUNT: Final = 0.03
#: An evaluation shorter than this shows nothing by its time.
_LONG_SECONDS: Final = 5


@dataclass(slots=True)
class _Bar:
    """A bar as it was last drawn."""

    step: int
    seconds: float
    #: Seconds that all bars had taken until then.
    all_seconds: float


class Drawn(NamedTuple):
    """What states of one bar, and losses between them, show."""

    #: The bar's total; None where it is not printed.
    total: int | None = None
    step: int = 0
    seconds: float = 0.0
    losses: int = 0
    #: A loss came before a state, or after the last one.
    goes_on: bool = False
    loss_comes_last: bool = False
    epoch_steps: tuple[int, ...] = ()
    is_named: bool = False


class Bars:
    """The bars so far, each known by its total, and the evidence which one is training's."""

    def __init__(self, fmt: Format, chosen: int | None = None) -> None:
        """``chosen`` is the total of training's bar, if it is known beforehand."""
        #: Something other than training took time since its last step.
        self.aside = False
        self._has_bars = fmt.bar
        #: Words behind a bar are those of training.
        self.are_named = False
        #: Steps of an epoch by the bars of epochs: one number, unless they are of several loops.
        self.epoch_steps: set[int] = set()
        #: The total of the bar that is counted.
        self.counted = chosen
        #: Words of the log named two: two trainings are in it.
        self.two_trainings = False
        self._bars: dict[int, _Bar] = {}
        self._named_total: int | None = None
        #: Bars that words announced as something else.
        self._other_totals: set[int] = set()
        #: By a loss while it was drawn, or because it went on after another bar.
        self._went_on: int | None = None
        #: The only bar that there was when the first word of training came.
        self._alone: int | None = None
        self._words = 0
        self._run_seconds: float | None = None
        #: Bars whose clock started over while their steps went on.
        self._fell: set[int] = set()
        self._current: int | None = None
        self._announced: int | None = None
        self._loss_at: int | None = None
        self._all_seconds = 0.0
        #: The step of an epoch's bar where it was first drawn after a validation.
        self.drawn_after: int | None = None
        #: How often an epoch's bar went on after a validation.
        self.validated_within = 0

    @property
    def training(self) -> int | None:
        """The total of training's bar; None if it is not known, or not drawn."""
        for named in (self._named_total, self._went_on, self._alone):
            if named is not None:
                return named if named in self._bars else None
        bars = {total: bar for total, bar in self._bars.items() if total not in self._other_totals}
        if len(bars) > 1 and self._run_seconds is not None:
            allowed = _CLOCK_SECONDS + _ACCOUNT * self._run_seconds
            bars = {
                total: bar
                for total, bar in bars.items()
                if abs(bar.seconds - self._run_seconds) <= allowed
            }
        return next(iter(bars)) if len(bars) == 1 else None

    @property
    def are_announced(self) -> bool:
        """Whether words of the log said which bar, or that a bar, is training's."""
        return self._named_total is not None or self.are_named

    @property
    def is_resumed(self) -> bool:
        """Whether training's bar was begun again and goes on, by a clock that starts over."""
        return self.training in self._fell

    @property
    def is_unsure(self) -> bool:
        """Whether the counted bar may be another one than training's."""
        return bool(self._bars) and self.training != self.counted

    def is_aside(self, record: LogRecord, epoch: int | None, *, begun: bool) -> bool:
        """Return whether a record is not of training: of validation's bar, or of another one.

        ``epoch`` is that of training's last step, and ``begun`` is whether there was one.
        """
        if not self._has_bars:
            self.aside = self.aside or bool(record.aside and begun)
            return False
        if record.total is not None and record.step >= 0:
            self._draw(record.total, record.step, (record.seconds or 0.0) * record.step)
        if record.bar_steps is not None and len(self.epoch_steps) < _MOST_BARS:
            self.epoch_steps.add(record.bar_steps)
        self.are_named = self.are_named or (record.step >= 0 and record.aside == 0)
        self._hear(record)
        if record.aside:
            self.aside = begun
        elif record.step >= 0 and record.total not in {None, self.counted}:
            self.aside = begun
            return True
        else:
            return self._is_of_validation(record, epoch)
        self.drawn_after = None
        return self.aside

    def _is_of_validation(self, record: LogRecord, epoch: int | None) -> bool:
        """Return whether a state of training's bar may be a step of a validation.

        Validation comes last in an epoch, or the bar goes on with it, or after it. Its steps are
        drawn between those of a bar of its own: a second state without one in between is not.
        """
        if not self.aside or record.epoch is None or record.epoch != epoch or record.step < 0:
            self.drawn_after = None
            return False
        if self.drawn_after is None or record.step == self.drawn_after:
            self.drawn_after = record.step
            return True
        self.drawn_after = None
        self.validated_within += 1
        self.aside = False
        return False

    def drawn(self, columns: Columns) -> Drawn | None:
        """Return what the records show if they are states of the counted bar, and losses.

        None if it may be another bar, or its clock fell.
        """
        if not self._has_bars:
            return Drawn()
        draws = np.flatnonzero(columns["step"] >= 0)
        losses = np.flatnonzero(~np.isnan(columns["loss"]))
        drawn = Drawn(
            losses=len(losses),
            epoch_steps=tuple(dict.fromkeys(_whole(columns["bar_steps"][draws]))),
            is_named=bool((columns["aside"][draws] == 0).any()),
        )
        totals = columns["total"][draws]
        if np.isnan(totals).all():
            return drawn
        before = None if self.counted is None else self._bars.get(self.counted)
        if before is None or self._current != self.counted or (totals != self.counted).any():
            return None
        steps = np.concatenate([[before.step], columns["step"][draws]])
        own_s = np.nan_to_num(columns["seconds"][draws]) * steps[1:]
        seconds = np.concatenate([[before.seconds], own_s])
        falls = (np.diff(steps) < 0) | (seconds[1:] + _CLOCK_SECONDS < seconds[:-1])
        if falls.any():
            return None
        return drawn._replace(
            total=self.counted,
            step=int(steps[-1]),
            seconds=float(seconds[-1]),
            goes_on=self._loss_at == self.counted or bool((losses < draws[-1]).any()),
            loss_comes_last=bool((losses >= draws[-1]).any()),
        )

    def take(self, drawn: Drawn) -> None:
        """Take in many states of the counted bar, and the losses between them."""
        total = drawn.total
        if total is not None:
            self._all_seconds += drawn.seconds - self._bars[total].seconds
            self._bars[total] = _Bar(drawn.step, drawn.seconds, self._all_seconds)
            if drawn.goes_on:
                self._went_on = self._went_on or total
            self._loss_at = total if drawn.loss_comes_last else None
        for epoch_steps in drawn.epoch_steps:
            if len(self.epoch_steps) < _MOST_BARS:
                self.epoch_steps.add(epoch_steps)
        self.are_named = self.are_named or drawn.is_named
        if not self._words and drawn.losses and len(self._bars) == 1:
            self._alone = next(iter(self._bars))
        self._words += drawn.losses

    def _hear(self, record: LogRecord) -> None:
        """Take in words: a loss, the run's own account of its time, or what the next bar is."""
        if record.total is not None and record.step < 0:
            self._say(record.total)
        if record.step < 0 and record.aside is not None:
            self._announced = record.aside
        if record.whole_seconds is not None:
            self._run_seconds = record.whole_seconds
        if record.loss is None and record.whole_run is None:
            return
        self._loss_at = self._current if record.step < 0 else record.total
        self._words += 1
        if self._words == 1 and len(self._bars) == 1:
            self._alone = next(iter(self._bars))

    def _draw(self, total: int, step: int, seconds: float) -> None:
        """Take in a state of a bar, and the seconds since it began."""
        if self.counted is None:
            self.counted = total if self._named_total is None else self._named_total
        before = self._bars.get(total)
        begins = before is None or step < before.step
        if begins and self._announced is not None:
            if self._announced:
                self._other_totals.add(total)
            else:
                self._say(total)
            self._announced = None
        if before is not None and not begins and seconds + _CLOCK_SECONDS < before.seconds:
            self._fell.add(total)
            begins = True
        took = seconds if before is None or begins else seconds - before.seconds
        if before is not None and not begins and self._goes_on(total, before, took):
            self._went_on = self._went_on or total
        self._all_seconds += took
        self._current, self._loss_at = total, None
        if before is not None or len(self._bars) < _MOST_BARS:
            self._bars[total] = _Bar(step, seconds, self._all_seconds)

    def _goes_on(self, total: int, before: _Bar, took: float) -> bool:
        """Return whether a bar goes on after a loss, or after other bars whose time it has too.

        Evaluation prints nothing while its bar is drawn, and has no bar within.
        """
        if self._current == total:
            return self._loss_at == total
        others = self._all_seconds - before.all_seconds
        return others >= _LONG_SECONDS and took + _CLOCK_SECONDS >= others

    def _say(self, total: int) -> None:
        self.two_trainings |= self._named_total not in {None, total}
        self._named_total = total


def _whole(numbers: Floats) -> list[int]:
    return [int(number) for number in numbers[~np.isnan(numbers)].tolist()]
