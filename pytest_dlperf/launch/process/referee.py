"""The referee of a pair in lock-step: both launches live at once, and take turns in their windows.

A turn is a few iterations of all ranks of one launch, while the ranks of the other wait. So both
meet the same neighbours, clocks and temperature: "duet benchmarking" (Bulej et al., ICPE 2020,
https://arxiv.org/abs/2001.05811). ``worker/turns.py`` is the other end of the FIFOs.
"""

from __future__ import annotations

import os
import random
import select
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pytest_dlperf.core.errors import DlperfError
from pytest_dlperf.core.wire import TURN_REPORTS, TURN_S, iterations_of_a_turn, rank_file


class TurnsPlan(NamedTuple):
    """What the launches of a pair have in common."""

    ranks: int
    #: Iterations of the measured window.
    iterations: int
    #: Seconds of a turn that are aimed at.
    turn_s: float = TURN_S


class NoTurnsError(DlperfError):
    """The folder of a run cannot hold the FIFOs of its ranks."""


@dataclass
class _Side:
    """One launch, as the referee sees it."""

    folder: Path
    left: int
    #: What a rank has to write before it goes on.
    turns: list[int] = field(default_factory=list)
    reports: int = -1
    text: bytes = b""
    #: Ranks that have built their training.
    built: set[int] = field(default_factory=set)
    #: Seconds of a step by rank, of the ranks that have warmed up.
    ready_s: dict[int, float] = field(default_factory=dict)
    #: Ranks that have yet to finish the turn of their launch.
    in_turn: set[int] = field(default_factory=set)
    is_released: bool = False


class Referee:
    """Gives two launches their turns: each warms up alone, then come pairs of turns.

    In each pair a random launch is first. It makes the FIFOs in ``folders``, which are those of
    the records, and ``close`` removes them. Raises ``NoTurnsError`` where that cannot be done.
    """

    def __init__(
        self, folders: Sequence[Path], turns_plan: TurnsPlan, order: random.Random
    ) -> None:
        self._sides = [_Side(folder, turns_plan.iterations) for folder in folders]
        self._turns_plan = turns_plan
        self._random = order
        self._length = 0
        #: Launches whose turns are next, the next one last.
        self._next: list[int] = []
        try:
            for side in self._sides:
                self._open(side)
        except OSError as error:
            self.close()
            raise NoTurnsError(f"no FIFO can be made in {folders[0]}: {error.strerror}") from error

    def _open(self, side: _Side) -> None:
        side.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in self._paths(side):
            path.unlink(missing_ok=True)
            os.mkfifo(path, 0o600)
            # For both ways, so that neither side waits for the other to open it.
            side.turns.append(os.open(path, os.O_RDWR | os.O_NONBLOCK))
        side.reports = side.turns.pop()

    def close(self) -> None:
        """Remove the FIFOs."""
        for side in self._sides:
            for descriptor in (*side.turns, side.reports):
                if descriptor >= 0:
                    os.close(descriptor)
            for path in self._paths(side):
                path.unlink(missing_ok=True)

    def _paths(self, side: _Side) -> list[Path]:
        names = [rank_file(rank, "turn") for rank in range(self._turns_plan.ranks)]
        return [side.folder / name for name in (*names, TURN_REPORTS)]

    def wait(self, timeout_s: float) -> None:
        """Take reports of ranks for up to ``timeout_s``; give the next turn when one is over."""
        readable, _, _ = select.select([side.reports for side in self._sides], [], [], timeout_s)
        for side in self._sides:
            if side.reports in readable:
                side.text += os.read(side.reports, 65536)
                *lines, side.text = side.text.split(b"\n")
                for line in lines:
                    _take(side, line.decode().split())
        is_built = all(len(side.built) == self._turns_plan.ranks for side in self._sides)
        if is_built and not any(side.in_turn for side in self._sides):
            self._give()

    def _give(self) -> None:
        """Begin the next turn; none is under way."""
        if not self._next and any(side.left for side in self._sides):
            self._next = self._random.sample(range(len(self._sides)), len(self._sides))
        if not self._next:
            if not any(side.is_released for side in self._sides):
                self.release(0)
            return
        side = self._sides[self._next.pop()]
        side.in_turn = set(range(self._turns_plan.ranks))
        if not side.ready_s:
            _write(side, 0)  # its warm-up
            return
        if not self._length:
            step_s = max(max(each.ready_s.values()) for each in self._sides)
            plan = self._turns_plan
            self._length = iterations_of_a_turn(plan.iterations, step_s, plan.turn_s)
        side.left -= min(side.left, self._length)
        _write(side, self._length)

    def release(self, index: int) -> None:
        """Let a launch go on to its end, after its last turn."""
        side = self._sides[index]
        if not side.is_released:
            side.is_released = True
            _write(side, 0)

    def is_through(self, index: int) -> bool:
        """Return whether a launch may end: it has had all its turns."""
        return self._sides[index].is_released

    @property
    def awaited(self) -> int:
        """Return the launch that the other one waits for."""
        for index, side in enumerate(self._sides):
            if side.in_turn or len(side.built) < self._turns_plan.ranks:
                return index
        return next((i for i, side in enumerate(self._sides) if side.is_released), 0)


def _take(side: _Side, words: list[str]) -> None:
    rank, word = int(words[0]), words[1]
    if word == "built":
        side.built.add(rank)
        return
    if word == "ready":
        side.ready_s[rank] = float(words[2])
    side.in_turn.discard(rank)


def _write(side: _Side, iterations: int) -> None:
    for descriptor in side.turns:
        os.write(descriptor, f"{iterations}\n".encode())
