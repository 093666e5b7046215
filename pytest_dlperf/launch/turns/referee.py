"""The referee of a pair in lock-step: both launches live at once, and take turns in their windows.

A turn is a few iterations of all ranks of one launch, while the other launch is frozen. So both
meet the same neighbours, clocks and temperature: "duet benchmarking" (Bulej et al., ICPE 2020,
https://arxiv.org/abs/2001.05811). ``node.py`` is the other end of a launch's socket, on each of
its nodes, and ``worker/turns.py`` that of its FIFOs, in each rank.
"""

from __future__ import annotations

import random
import select
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from pytest_dlperf.core.wire import TURN_S, iterations_of_a_turn
from pytest_dlperf.launch.turns.lines import (
    FREEZE,
    REFUSED,
    THAW,
    TURN,
    Lines,
    Report,
    Standing,
    parse,
)

#: In a long turn the launch that waits goes on for a moment, so often: its ranks wait for their
#: turns all the same, and its libraries send their heartbeats. TensorFlow's multi-worker strategy
#: takes a peer for lost after 10 s without one, JAX after 100 s.
_BREATHES_EVERY_S: Final = 3.0
_BREATH_S: Final = 0.1


class TurnsPlan(NamedTuple):
    """What the launches of a pair have in common."""

    ranks: int
    #: Iterations of the measured window.
    iterations: int
    #: Seconds of a turn that are aimed at.
    turn_s: float = TURN_S
    #: Whether the launch that waits is frozen.
    is_frozen: bool = True
    #: Seconds from the first rank that marks a step to the last, at most; None for workloads,
    #: whose ranks all report.
    marks_within_s: float | None = None


@dataclass
class _Side:
    """One launch, as the referee sees it."""

    lines: Lines
    left: int
    #: Ranks that have built their training, and when the first of them had.
    built: set[int] = field(default_factory=set)
    built_s: float = 0.0
    #: Seconds of a step by rank, of the ranks that have warmed up.
    ready_s: dict[int, float] = field(default_factory=dict)
    #: Ranks that have yet to finish the turn of their launch.
    in_turn: set[int] = field(default_factory=set)
    is_freezing: bool = False
    is_frozen: bool = False
    #: When it was frozen, or let go on for a moment.
    changed_s: float = 0.0
    #: Whether it goes on for a moment only.
    breathes: bool = False
    #: What did not stand still between turns; empty for nothing.
    moving: str = ""
    is_released: bool = False
    #: Whether a rank takes no more turns: it has failed, or ``fault`` says why.
    has_left: bool = False
    fault: str = ""


class PairReferee(Protocol):
    """Gives two launches their turns, each known by its number."""

    def wait(self, timeout_s: float) -> None:
        """Take what they send for up to ``timeout_s``; give the next turn when one is over."""

    def release(self, index: int) -> None:
        """Let a launch go on to its end, without turns."""

    def is_through(self, index: int) -> bool:
        """Return whether a launch may end."""
        ...

    def moving(self, index: int) -> str:
        """Return what of a launch did not stand still between turns; empty for nothing."""
        ...

    @property
    def left(self) -> int | None:
        """Return a launch that takes no more turns, but goes on; None for none."""

    @property
    def fault(self) -> str:
        """Return why it takes no more turns, where a rank does not say so itself."""
        ...

    @property
    def awaited(self) -> int:
        """Return the launch that the other one waits for."""
        ...


class Referee:
    """Gives two launches their turns: each warms up alone, then come pairs of turns.

    In each pair a random launch is first. ``sockets`` lead to the launches.
    """

    def __init__(
        self, sockets: Sequence[Lines], turns_plan: TurnsPlan, order: random.Random
    ) -> None:
        self._sides = [_Side(lines, turns_plan.iterations) for lines in sockets]
        self._plan = turns_plan
        self._random = order
        self._length = 0
        #: Launches whose turns are next, the next one last.
        self._next: list[int] = []

    def wait(self, timeout_s: float) -> None:
        """Take reports for up to ``timeout_s``; give the next turn when one is over."""
        living = [side for side in self._sides if not side.lines.is_over]
        readable, _, _ = select.select([side.lines for side in living], [], [], timeout_s)
        for side in living:
            if side.lines in readable:
                for line in side.lines.take():
                    try:
                        _take(side, parse(line, self._plan.ranks))
                    except ValueError as error:
                        side.fault, side.has_left = REFUSED.format(error), True
        self._await_marks()
        self._let_breathe()
        is_built = all(len(side.built) == self._plan.ranks for side in self._sides)
        if is_built and not any(side.in_turn or side.is_freezing for side in self._sides):
            self._go_on()

    def _await_marks(self) -> None:
        """Let a launch leave of which some ranks have long marked a step, and others none."""
        if self._plan.marks_within_s is None:
            return
        for side in self._sides:
            late_s = time.monotonic() - side.built_s - self._plan.marks_within_s
            missing = set(range(self._plan.ranks)) - side.built
            if side.built and missing and late_s > 0:
                side.has_left = True
                side.fault = (
                    f"rank {min(side.built)} has marked a step, and {self._plan.marks_within_s:g} "
                    f"s later rank {min(missing)} had not; every rank must mark its steps, and "
                    "come to its first without another's"
                )

    def _let_breathe(self) -> None:
        """Let a launch that has been frozen for long go on for a moment."""
        now_s = time.monotonic()
        for side in self._sides:
            passed_s = now_s - side.changed_s
            if side.is_frozen and passed_s > _BREATHES_EVERY_S:
                side.lines.send(THAW)
                side.is_frozen, side.breathes, side.changed_s = False, True, now_s
            elif side.breathes and passed_s > _BREATH_S:
                side.lines.send(FREEZE)
                side.is_freezing, side.breathes = True, False

    def _go_on(self) -> None:
        """Freeze who is to wait, else begin the next turn; none is under way."""
        if not self._next and any(side.left for side in self._sides):
            self._next = self._random.sample(range(len(self._sides)), len(self._sides))
        if not self._next:
            if not any(side.is_released for side in self._sides):
                for side in self._sides:
                    side.lines.send(THAW)  # what follows the window may take long
                    side.is_frozen = side.breathes = False
                self.release(0)
            return
        side = self._sides[self._next[-1]]
        if side.ready_s and self._freeze_others(side):
            return
        del self._next[-1]
        side.in_turn = set(range(self._plan.ranks))
        side.is_frozen = side.breathes = False
        if not side.ready_s:
            side.lines.send(f"{TURN} 0")  # its warm-up
            return
        if not self._length:
            step_s = max(max(each.ready_s.values()) for each in self._sides)
            plan = self._plan
            self._length = iterations_of_a_turn(plan.iterations, step_s, plan.turn_s)
        side.left -= min(side.left, self._length)
        side.lines.send(f"{TURN} {self._length}")

    def _freeze_others(self, side: _Side) -> bool:
        """Begin to freeze the launches that are to wait; return whether there was any to freeze.

        Only between turns of the window: what waits longer, as for the other one's warm-up, may
        miss the heartbeats of its own libraries.
        """
        moving = [each for each in self._sides if each is not side and not each.is_frozen]
        for waiting in moving if self._plan.is_frozen else ():
            waiting.is_freezing, waiting.breathes = True, False
            waiting.lines.send(FREEZE)
        return self._plan.is_frozen and bool(moving)

    def release(self, index: int) -> None:
        """Let a launch go on to its end, after its last turn."""
        side = self._sides[index]
        if not side.is_released:
            side.is_released = True
            side.lines.send(f"{TURN} 0")

    def is_through(self, index: int) -> bool:
        """Return whether a launch may end: it has had all its turns."""
        return self._sides[index].is_released

    @property
    def left(self) -> int | None:
        """Return a launch of which a rank takes no more turns, or marks no step; None for none."""
        return next((i for i, side in enumerate(self._sides) if side.has_left), None)

    @property
    def fault(self) -> str:
        """Return which ranks of it mark no step while others do, or which report is none."""
        return next((side.fault for side in self._sides if side.has_left), "")

    def moving(self, index: int) -> str:
        """Return what of a launch did not stand still between turns; empty for nothing."""
        return self._sides[index].moving

    @property
    def awaited(self) -> int:
        """Return the launch that the other one waits for."""
        awaited = (
            *(side.in_turn or len(side.built) < self._plan.ranks for side in self._sides),
            *(side.is_freezing for side in self._sides),
            *(side.is_released for side in self._sides),
        )
        return next((i % len(self._sides) for i, is_it in enumerate(awaited) if is_it), 0)


def _take(side: _Side, said: Standing | Report) -> None:
    if isinstance(said, Standing):
        side.is_freezing, side.is_frozen, side.changed_s = False, True, time.monotonic()
        side.moving = side.moving or said.moving
        return
    if said.word == "built":
        side.built_s = side.built_s or time.monotonic()
        side.built.add(said.rank)
        return
    if said.word == "left":
        side.has_left = True
        return
    if said.word == "ready":
        side.ready_s[said.rank] = said.step_s
    side.in_turn.discard(said.rank)
