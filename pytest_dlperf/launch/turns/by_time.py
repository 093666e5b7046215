"""The referee of a pair whose programs do not say when a step ends: turns are given by time.

From the start of the launches on, one goes on for some tenths of a second, and to its next print,
while the other is frozen, until the first of them ends. What each wrote in a turn is known by the
sizes of its logs. A launch that has warmed up before the other one has shorter turns until that
has, so that both have their measured iterations in the same turns. It is never frozen for longer
than two turns, as the order of each pair of turns is drawn: what its libraries send each other to
show that they live must not be late.
"""

from __future__ import annotations

import random
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pytest_dlperf.core.run import TimedTurn
from pytest_dlperf.launch.turns.lines import FREEZE, REFUSED, THAW, Lines, Standing, parse


class TimedTurns(NamedTuple):
    """How long the turns are of a pair that takes them by time."""

    #: Seconds of a turn.
    turn_s: float
    #: Whether the log of a launch, by its number, shows that its warm-up is over.
    is_warm: Callable[[int], bool]
    #: When a launch, by its number, printed last, in nanoseconds.
    last_print_ns: Callable[[int], int]


#: Seconds of a turn of a launch that has warmed up before the other one has.
_HELD_S: Final = 0.02
#: Seconds between looks for a print at the end of a turn.
_LOOKS_EVERY_S: Final = 0.002
#: Seconds of a turn after which no print is awaited: in two such turns nobody takes the frozen
#: ranks for lost, as TensorFlow's multi-worker strategy does after ten seconds.
_LONGEST_S: Final = 4.0


@dataclass
class _Side:
    """One launch, as the referee sees it."""

    lines: Lines
    turns: list[TimedTurn] = field(default_factory=list)
    #: When its turn began; None while it is frozen.
    begin_s: float | None = None
    is_freezing: bool = False
    is_warm: bool = False
    #: Its last print when the time of its turn was over; None before.
    last_print_ns: int | None = None
    moving: str = ""
    #: Why it takes no more turns; empty where it does.
    fault: str = ""


class TimedReferee:
    """Gives two launches their turns by time; in each pair of turns a random launch is first.

    ``sockets`` lead to the launches, which have just been started.
    """

    def __init__(
        self, sockets: Sequence[Lines], timed_turns: TimedTurns, order: random.Random
    ) -> None:
        self._sides = [_Side(lines) for lines in sockets]
        self._plan = timed_turns
        self._random = order
        self._number = 0
        #: Launches whose turns are next, the next one last.
        self._next: list[int] = []
        self._is_released = False
        for side in self._sides:
            self._freeze(side)

    def wait(self, timeout_s: float) -> None:
        """Take answers for up to ``timeout_s``; give the next turn when one is over."""
        living = [side for side in self._sides if not side.lines.is_over]
        readable, _, _ = select.select(
            [side.lines for side in living], [], [], min(timeout_s, self._left_s())
        )
        for index, side in enumerate(self._sides):
            if side in living and side.lines in readable:
                for line in side.lines.take():
                    self._take(side, line)
                side.is_warm = side.is_warm or self._plan.is_warm(index)
        for index, side in enumerate(self._sides):
            if side.lines.is_over:
                self.release(1 - index)
        if not self._is_released and not any(side.is_freezing for side in self._sides):
            self._go_on()

    def _left_s(self) -> float:
        """Return the seconds that are left of the turn under way."""
        for side in self._sides:
            if side.begin_s is not None and not side.is_freezing and not self._is_released:
                left_s = side.begin_s + self._length_s(side) - time.monotonic()
                return left_s if left_s > 0 else _LOOKS_EVERY_S
        return self._plan.turn_s

    def _is_over(self, index: int) -> bool:
        """Return whether a turn is over: its time is, and the launch has printed since.

        What waits within a step, as for a disk, goes on while the launch is frozen: it would be
        missing in the time of its turns. While a launch warms up its turn is as long as its time.
        """
        side = self._sides[index]
        assert side.begin_s is not None
        passed_s = time.monotonic() - side.begin_s
        if passed_s < self._length_s(side):
            return False
        if passed_s > _LONGEST_S or not all(each.is_warm for each in self._sides):
            return True
        last_print_ns = self._plan.last_print_ns(index)
        if side.last_print_ns is None:
            side.last_print_ns = last_print_ns
        return last_print_ns > side.last_print_ns

    def _length_s(self, side: _Side) -> float:
        """Return the seconds of a turn of this launch."""
        is_held = side.is_warm and not all(each.is_warm for each in self._sides)
        return min(_HELD_S, self._plan.turn_s) if is_held else self._plan.turn_s

    def _go_on(self) -> None:
        """End the turn under way if its time is over; begin one if there is none."""
        running = next((i for i, side in enumerate(self._sides) if side.begin_s is not None), None)
        if running is not None:
            if self._is_over(running):
                self._freeze(self._sides[running])
            return
        if not self._next:
            self._next = self._random.sample(range(len(self._sides)), len(self._sides))
            self._number += 1
        side = self._sides[self._next.pop()]
        side.begin_s, side.last_print_ns = time.monotonic(), None
        side.lines.send(THAW)

    def _freeze(self, side: _Side) -> None:
        side.is_freezing = True
        side.lines.send(FREEZE)

    def _take(self, side: _Side, line: str) -> None:
        try:
            said = parse(line, ranks=0)
        except ValueError as error:
            side.fault = REFUSED.format(error)
            return
        assert isinstance(said, Standing), "no rank reports"
        begin_s, side.begin_s, side.is_freezing = side.begin_s, None, False
        if said.moving:
            side.moving = side.moving or said.moving
            return
        # Before the first turn both go on together, until they stand still
        took_s = time.monotonic() - begin_s if begin_s is not None else 0.0
        is_turn = begin_s is not None
        side.turns.append(TimedTurn(self._number, said.sizes, took_s, is_turn, is_turn))

    def release(self, index: int) -> None:
        """Let a launch go on to its end: there are no more turns."""
        if not self._is_released:
            self._is_released = True
            self._sides[index].lines.send(THAW)

    def is_through(self, index: int) -> bool:
        """Return whether a launch may end: it may at any time."""
        return True

    @property
    def left(self) -> int | None:
        """Return a launch whose answer is none; None for none."""
        return next((i for i, side in enumerate(self._sides) if side.fault), None)

    @property
    def fault(self) -> str:
        """Return which answer of it is none."""
        return next((side.fault for side in self._sides if side.fault), "")

    def moving(self, index: int) -> str:
        """Return what of a launch did not stand still between turns; empty for nothing."""
        return self._sides[index].moving

    def turns(self, index: int) -> tuple[TimedTurn, ...]:
        """Return the turns that a launch has had, all but the one in which it ended.

        The first, of number 0, is what was before it stood still for the first time.
        """
        return tuple(self._sides[index].turns)

    @property
    def awaited(self) -> int:
        """Return the launch that goes on, or is to stand still, while the other one waits."""
        for index, side in enumerate(self._sides):
            if not side.lines.is_over and (side.is_freezing or side.begin_s is not None):
                return index
        return next((i for i, side in enumerate(self._sides) if not side.lines.is_over), 0)
