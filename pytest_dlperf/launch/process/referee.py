"""The referee of a pair in lock-step: both launches live at once, and take turns in their windows.

A turn is a few iterations of all ranks of one launch, while the ranks of the other wait. So both
meet the same neighbours, clocks and temperature: "duet benchmarking" (Bulej et al., ICPE 2020,
https://arxiv.org/abs/2001.05811). ``worker/turns.py`` is the other end of the FIFOs.
"""

from __future__ import annotations

import math
import os
import random
import select
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

from pytest_dlperf.core.wire import TURN_REPORTS, rank_file

#: Length of a turn that is aimed at.
_TURN_S: Final = 0.5
#: So many turns at least, as each pair of turns is a comparison, ...
_FEWEST_TURNS: Final = 8
#: ... of so many iterations at least: on a GPU the first waits for its kernels to be launched.
_FEWEST_ITERATIONS: Final = 3


class Window(NamedTuple):
    """What the launches of a pair have in common."""

    ranks: int
    #: Iterations of the measured window.
    iterations: int


def iterations_of_a_turn(window: Window, step_s: float) -> int:
    """Return the iterations of a turn, for steps of ``step_s``: about half a second."""
    by_time = round(_TURN_S / step_s) if step_s > 0 else window.iterations
    by_count = math.ceil(window.iterations / _FEWEST_TURNS)
    return max(1, min(window.iterations, max(_FEWEST_ITERATIONS, min(by_time, by_count))))


@dataclass
class _Side:
    """One launch, as the referee sees it."""

    folder: Path
    left: int
    #: What a rank has to write before it goes on.
    turns: list[int] = field(default_factory=list)
    reports: int = -1
    text: bytes = b""
    #: Seconds of a step by rank, of the ranks that are ready.
    ready_s: dict[int, float] = field(default_factory=dict)
    #: Ranks that have yet to finish the turn of their launch.
    in_turn: set[int] = field(default_factory=set)
    is_released: bool = False


class Referee:
    """Gives two launches their turns: pairs of turns, in each of which a random one is first.

    It is a context manager, and makes the FIFOs in ``folders``, which are those of the records.
    """

    def __init__(self, folders: Sequence[Path], window: Window, order: random.Random) -> None:
        self._sides = [_Side(folder, window.iterations) for folder in folders]
        self._window = window
        self._random = order
        self._length = 0
        #: Launches whose turns are next, the next one last.
        self._next: list[int] = []

    def __enter__(self) -> Referee:
        for side in self._sides:
            side.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in self._paths(side):
                path.unlink(missing_ok=True)
                os.mkfifo(path, 0o600)
            # For both ways, so that neither side waits for the other to open it.
            *side.turns, side.reports = [
                os.open(path, os.O_RDWR | os.O_NONBLOCK) for path in self._paths(side)
            ]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for side in self._sides:
            for descriptor in (*side.turns, side.reports):
                if descriptor >= 0:
                    os.close(descriptor)
            for path in self._paths(side):
                path.unlink(missing_ok=True)

    def _paths(self, side: _Side) -> Iterable[Path]:
        names = [rank_file(rank, "turn") for rank in range(self._window.ranks)]
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
        if all(len(side.ready_s) == self._window.ranks for side in self._sides):
            self._give()

    def _give(self) -> None:
        """Begin the next turn, if none is under way."""
        if any(side.in_turn for side in self._sides):
            return
        if not self._length:
            step_s = max(max(side.ready_s.values()) for side in self._sides)
            self._length = iterations_of_a_turn(self._window, step_s)
        if not self._next and any(side.left for side in self._sides):
            self._next = self._random.sample(range(len(self._sides)), len(self._sides))
        if self._next:
            side = self._sides[self._next.pop()]
            side.in_turn = set(range(self._window.ranks))
            side.left -= min(side.left, self._length)
            _write(side, self._length)
        elif not any(side.is_released for side in self._sides):
            self.release(0)

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
            if side.in_turn or len(side.ready_s) < self._window.ranks:
                return index
        return next((i for i, side in enumerate(self._sides) if side.is_released), 0)


def _take(side: _Side, words: list[str]) -> None:
    rank, word = int(words[0]), words[1]
    if word == "ready":
        side.ready_s[rank] = float(words[2])
    else:
        side.in_turn.discard(rank)


def _write(side: _Side, iterations: int) -> None:
    for descriptor in side.turns:
        os.write(descriptor, f"{iterations}\n".encode())
