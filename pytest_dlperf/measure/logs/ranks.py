"""Take the prints of several ranks for one: those of one rank are counted."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from pytest_dlperf.measure.logs.declare import LEAST, MOST, Format, LogRecord, measured
from pytest_dlperf.measure.logs.records import Columns
from pytest_dlperf.measure.logs.windows import LogWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Places = NDArray[np.intp]
    Flags = NDArray[np.bool_]

#: Ranks print a step at about the same time: only the last two steps can come again.
_RECENT: Final = 2
#: A bar is drawn again and again: so many of its last states can come again.
_RECENT_OF_BAR: Final = 3
#: A rank with so many times the lines of another has more of the run.
_CLEARLY: Final = 1.1
#: Ranks of one training are no further apart, but for a step now and then.
_APART: Final = 1.5
_NOW_AND_THEN: Final = 0.1
#: So many steps are looked at for one that no rank is behind with.
_TRIES: Final = 16


@dataclass(slots=True)
class _Printed:
    """One of the last steps: its window, and how many prints it had."""

    window: LogWindow | None
    #: Rate, seconds and loss as printed.
    numbers: tuple[float | None, ...] = ()
    times: int = 1


class JoinedRanks(NamedTuple):
    """Prints of several ranks, as those of one, and how many are of no new step."""

    columns: Columns
    repeats: int
    #: Those among them that no tag names, and that have the same numbers.
    copies: int
    #: How often a step was printed, at most.
    most_prints: int
    #: Repeats that no tag names whose speed is known, and those that are far from the first print.
    compared: int = 0
    apart: int = 0


class Ranks:
    """The ranks of a log, and the last steps they printed.

    ``lead`` is the rank whose prints are counted; None is the first that a launcher's tag names.
    """

    def __init__(self, fmt: Format, lead: int | None = None) -> None:
        self.repeats = 0
        #: Those among them that no tag names, and that have the same numbers.
        self.copies = 0
        self._compared = self._apart = 0
        #: How many lines each rank wrote that a tag names.
        self.lines: Counter[int] = Counter()
        self._format = fmt
        self._recent_steps = _RECENT_OF_BAR if fmt.bar else _RECENT
        self._lead = lead
        #: How often a step was printed, at most.
        self._most_prints = 1
        self._recent: OrderedDict[tuple[int | None, int], _Printed] = OrderedDict()

    @property
    def better_lead(self) -> int | None:
        """The rank that wrote clearly more lines than the counted one; None if no rank did."""
        if self._lead is None or not self.lines:
            return None
        rank, lines = self.lines.most_common(1)[0]
        return rank if lines > _CLEARLY * self.lines[self._lead] else None

    @property
    def are_unlike(self) -> bool:
        """Whether lines of one step have speeds of all devices that are not of one training."""
        is_of_all = self._format.scope == "global" and not self._format.bar
        return is_of_all and self._apart > max(1, _NOW_AND_THEN * self._compared)

    def is_counted(self, rank: int | None) -> bool:
        """Return whether words are those of the rank whose prints are counted."""
        return rank is None or self._lead is None or rank == self._lead

    def leads(self, columns: Columns) -> Places | None:
        """Return which steps are of the rank that is counted, or new where no tag names a rank.

        None if tags are on some of the lines.
        """
        ranks = columns["rank"]
        are_tagged = ~np.isnan(ranks)
        if not columns.length or are_tagged.any() != are_tagged.all():
            return None
        if are_tagged[0]:
            lead = ranks[0] if self._lead is None else self._lead
            return None if self._format.counter == "stalls" else np.flatnonzero(ranks == lead)
        if self._format.counter == "stalls":
            return np.arange(columns.length)
        return _new_steps(columns)

    def joined(self, columns: Columns, leads: Places) -> JoinedRanks | None:
        """Return the records of the counted rank, with the mean rate of all ranks.

        The first record is one of them, and before the second none is of a step before the first.
        None if a record that no tag names may be of another run.
        """
        if len(leads) == columns.length:
            return JoinedRanks(columns, 0, 0, 1)
        if leads[0] != 0:
            return None
        steps, epochs = columns["step"], np.nan_to_num(columns["epoch"], nan=-1.0)
        follows = np.ones(columns.length, dtype=bool)
        follows[leads] = False
        repeats = np.flatnonzero(follows)
        # Each repeat is of the step printed last, of one before it, or of none of them.
        windows = np.full(len(repeats), -1)
        last = np.searchsorted(leads, repeats) - 1
        for back in range(self._recent_steps):
            place = last - back
            there = leads[np.maximum(place, 0)]
            is_same = (steps[there] == steps[repeats]) & (epochs[there] == epochs[repeats])
            windows = np.where(is_same & (place >= 0) & (windows < 0), place, windows)
        matched = windows >= 0
        most_prints = 1 + int(np.bincount(windows[matched], minlength=1).max())
        copies = compared = apart = 0
        if np.isnan(columns["rank"][0]):
            is_late = bool((windows < last).any()) and not self._format.bar
            if not matched.all() or (is_late and most_prints > self._most_prints):
                return None
            copies = int(_are_alike(columns, repeats, leads[windows]).sum())
            ratios = _speeds(columns)[repeats] / _speeds(columns)[leads[windows]]
            ratios = ratios[np.isfinite(ratios) & (ratios > 0)]
            compared = len(ratios)
            apart = int((np.maximum(ratios, 1 / ratios) > _APART).sum())
        lead_columns = columns.rows(leads)
        if self._format.averaging != "running":
            mean, times = _mean_rates(
                lead_columns["rate"], windows[matched], columns["rate"][repeats[matched]]
            )
            lead_columns = lead_columns.replaced(rate=mean, prints=times)
        return JoinedRanks(lead_columns, len(repeats), copies, most_prints, compared, apart)

    def take(self, joined: JoinedRanks, ranks: Floats) -> None:
        """Take in the prints of many steps, and the ranks of all lines."""
        self.lines.update(Counter(ranks[~np.isnan(ranks)].astype(int).tolist()))
        self.repeats += joined.repeats
        self.copies += joined.copies
        self._compared += joined.compared
        self._apart += joined.apart
        self._most_prints = max(self._most_prints, joined.most_prints)

    def remember(self, record: LogRecord, step: int, window: LogWindow | None) -> None:
        """Take in a step that was printed for the first time."""
        self._recent.pop((record.epoch, step), None)
        self._recent[record.epoch, step] = _Printed(window, _numbers(record))
        if len(self._recent) > self._recent_steps:
            self._recent.popitem(last=False)

    def is_repeat(self, record: LogRecord, step: int, rank: int | None) -> bool:
        """Return whether a step was counted, or will be, by the prints of another rank."""
        if self._format.counter == "stalls":
            return rank is not None and rank != min(self.lines)
        if rank is not None and self._lead is None:
            self._lead = rank
        # Written in blocks, the lines of one rank come long after those of another.
        follows = rank is not None and rank != self._lead
        printed = self._recent.get((record.epoch, step))
        if printed is None or not (follows or self._is_of_another_rank(printed)):
            self.repeats += follows
            return follows
        self.repeats += 1
        self.copies += rank is None and printed.numbers == _numbers(record)
        speeds = _speed(*printed.numbers[:2]), _speed(record.rate, record.seconds)
        if rank is None and min(speeds) > 0:
            self._compared += 1
            self._apart += max(speeds) > _APART * min(speeds)
        printed.times += 1
        self._most_prints = max(self._most_prints, printed.times)
        if printed.window is not None and self._format.averaging != "running":
            _take_in(printed.window, record.rate)
        return True

    def _is_of_another_rank(self, printed: _Printed) -> bool:
        """Return whether a step comes again by a slower rank, and not by a second run.

        A rank may be one print behind; then the step was not yet printed by as many as another.
        """
        last = next(reversed(self._recent.values()))
        return printed is last or self._format.bar or printed.times < self._most_prints


def _new_steps(columns: Columns) -> Places:
    """Return which steps are later than all before them, by epoch and step."""
    epochs, steps = columns["epoch"], columns["step"]
    if (steps[1:] > steps[:-1]).all() and not (epochs[1:] < epochs[:-1]).any():
        return np.arange(columns.length)
    # Their order by epoch and step
    _, epoch_order = np.unique(np.nan_to_num(epochs, nan=-1.0), return_inverse=True)
    unlike_steps, step_order = np.unique(steps, return_inverse=True)
    order = epoch_order * len(unlike_steps) + step_order
    return np.flatnonzero(order > np.maximum.accumulate(np.concatenate([[-1], order[:-1]])))


def _are_alike(columns: Columns, repeats: Places, printed: Places) -> Flags:
    """Return which repeats have the numbers of the print that they repeat."""
    alike = np.ones(len(repeats), dtype=bool)
    for name in ("rate", "seconds", "loss"):
        numbers, printed_numbers = columns[name][repeats], columns[name][printed]
        are_absent = np.isnan(numbers) & np.isnan(printed_numbers)
        alike &= (numbers == printed_numbers) | are_absent
    return alike


def whole_steps(columns: Columns, leads: Places, latest: int) -> tuple[int, int] | None:
    """Return the first and the last place among ``leads`` at which no rank is behind.

    At least ``latest`` of them come from the last one on. None if there are no two such places.
    """
    steps, end = columns["step"], len(leads) - latest
    first = range(1, min(end, _TRIES))
    last = range(end, max(0, end - _TRIES), -1)
    places = [
        next((place for place in tried if _is_whole(steps, leads, place)), None)
        for tried in (first, last)
    ]
    begin, stop = places
    return None if begin is None or stop is None or stop <= begin else (begin, stop)


def _is_whole(steps: Floats, leads: Places, place: int) -> bool:
    """Return whether no rank prints the step before once the counted one prints a step."""
    between = steps[leads[place] : leads[place + 1]]
    return not bool((between == steps[leads[place - 1]]).any())


def _numbers(record: LogRecord) -> tuple[float | None, ...]:
    return record.rate, record.seconds, record.loss


def _speed(rate: float | None, seconds: float | None) -> float:
    """Return iterations or work a second; 0 where a line has neither rate nor time."""
    rate, seconds = measured(rate), measured(seconds)
    return rate or (1 / seconds if seconds else 0.0)


def _speeds(columns: Columns) -> Floats:
    """Return the rates of records, or one over their seconds; NaN where one has neither."""
    rates, seconds = columns["rate"], columns["seconds"]
    return np.where(rates > LEAST, rates, 1 / np.where(seconds > LEAST, seconds, np.nan))


def _take_in(window: LogWindow, rate: float | None) -> None:
    """Take in another rank's rate: they measure one speed, each with its own clock."""
    rate = measured(rate)
    if rate is None or window.rate is None:
        return
    window.prints += 1
    window.rate += (rate - window.rate) / window.prints
    window.printed_rate = window.rate


def _mean_rates(rates: Floats, windows: Places, repeats: Floats) -> tuple[Floats, Floats]:
    """Return the rates with those of other ranks taken in, and how many each is the mean of.

    ``windows`` says for each of the ``repeats`` which rate it belongs to, in the order of the log.
    """
    rates, times = rates.copy(), np.ones(len(rates))
    is_rate = (repeats > LEAST) & (repeats < MOST)
    is_rate &= (rates[windows] > LEAST) & (rates[windows] < MOST)
    windows, repeats = windows[is_rate], repeats[is_rate]
    order = np.argsort(windows, kind="stable")
    windows, repeats = windows[order], repeats[order]
    turns = np.arange(len(windows)) - np.searchsorted(windows, windows)
    for turn in range(int(turns.max(initial=-1)) + 1):
        here = turns == turn
        times[windows[here]] += 1
        rates[windows[here]] += (repeats[here] - rates[windows[here]]) / times[windows[here]]
    return rates, times
