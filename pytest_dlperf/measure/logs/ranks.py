"""Several ranks that print one step, taken for one; and what tells them from another run."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytest_dlperf.measure.logs.declare import measured

if TYPE_CHECKING:
    from pytest_dlperf.measure.logs.declare import Format, Reading
    from pytest_dlperf.measure.logs.windows import Window

#: Ranks print a step at about the same time: only the last two steps can come again.
_RECENT: Final = 2
#: So many states of a bar, which is drawn again and again.
_RECENT_OF_BAR: Final = 3
#: A rank that wrote so many times the lines of another saw more of the run.
_CLEARLY: Final = 1.1


@dataclass(slots=True)
class _Printed:
    """One of the last steps: its window, and how many prints it had."""

    window: Window | None
    times: int = 1


class Ranks:
    """The ranks of a log, and the last steps they printed.

    ``lead`` is the rank whose prints are counted; None is the first that a launcher's tag names.
    """

    def __init__(self, form: Format, lead: int | None = None) -> None:
        self.repeats = 0
        #: Those that tags named, with how many lines each wrote.
        self.lines: Counter[int] = Counter()
        self._format = form
        self._lead = lead
        #: How often a step was printed, at most.
        self._most_prints = 1
        self._recent: OrderedDict[tuple[int | None, int], _Printed] = OrderedDict()

    @property
    def better_lead(self) -> int | None:
        """The rank that wrote clearly more than the one that was counted; None where none did."""
        if self._lead is None or not self.lines:
            return None
        rank, lines = self.lines.most_common(1)[0]
        return rank if lines > _CLEARLY * self.lines[self._lead] else None

    def forget(self) -> None:
        """Begin anew with the next step."""
        self._recent.clear()

    def remember(self, epoch: int | None, step: int, window: Window | None) -> None:
        """Take in a step that was printed for the first time."""
        self._recent.pop((epoch, step), None)
        self._recent[epoch, step] = _Printed(window)
        if len(self._recent) > (_RECENT_OF_BAR if self._format.bar else _RECENT):
            self._recent.popitem(last=False)

    def is_repeat(self, reading: Reading, step: int, rank: int | None) -> bool:
        """Return whether a step was counted, or will be, by the prints of another rank."""
        if self._format.counter == "stalls":
            return rank is not None and rank != min(self.lines)
        if rank is not None and self._lead is None:
            self._lead = rank
        # Written in blocks, the lines of one rank come long after those of another.
        follows = rank is not None and rank != self._lead
        printed = self._recent.get((reading.epoch, step))
        if printed is None or not (follows or self._is_of_another_rank(printed)):
            self.repeats += follows
            return follows
        self.repeats += 1
        printed.times += 1
        self._most_prints = max(self._most_prints, printed.times)
        if printed.window is not None and self._format.averaging != "running":
            _take_in(printed.window, reading.rate)
        return True

    def _is_of_another_rank(self, printed: _Printed) -> bool:
        """Return whether a step comes again by a slower rank, and not by a second run.

        A rank may be one print behind; then the step was not yet printed by as many as another.
        """
        last = next(reversed(self._recent.values()))
        return printed is last or self._format.bar or printed.times < self._most_prints


def _take_in(window: Window, rate: float | None) -> None:
    """Take in another rank's rate: they measure one speed, each with its own clock."""
    rate = measured(rate)
    if rate is None or window.rate is None:
        return
    window.prints += 1
    window.rate += (rate - window.rate) / window.prints
    window.printed_rate = window.rate
