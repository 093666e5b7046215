"""The turns of a rank: the measured window in one piece, or in turns with the other arm of a pair.

In lock-step both arms live at once, and one computes while the other waits. A rank that waits
reads from a FIFO, so it uses no CPU. ``launch/process/referee.py`` is the other end. Standard
library only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pytest_dlperf.core.wire import TURN_REPORTS, rank_file
from pytest_dlperf.worker.failure import WorkerFailure


class Turns:
    """The measured window in one turn."""

    def __init__(self) -> None:
        #: The first iteration of each turn; empty for a window in one piece.
        self.first_steps: list[int] = []

    def of(self, window: range, *, typical_s: float) -> Iterator[range]:
        """Yield the iterations of each turn, when it begins; a step takes ``typical_s`` or so."""
        yield window


class InTurns(Turns):
    """The measured window in turns of a few iterations, each when the referee allows it.

    The last one is followed by a wait until the other arm has had its last one as well, so that
    what a rank does after the window does not disturb it.
    """

    def __init__(self, folder: Path, rank: int) -> None:
        super().__init__()
        self._rank = rank
        # The referee holds the other end of both before the launch starts.
        self._turn = os.open(folder / rank_file(rank, "turn"), os.O_RDONLY)
        self._reports = os.open(folder / TURN_REPORTS, os.O_WRONLY)

    def of(self, window: range, *, typical_s: float) -> Iterator[range]:
        """Yield the iterations of each turn; raise ``WorkerFailure`` if the referee is gone."""
        self._report(f"ready {typical_s:g}")
        first = window.start
        while first < window.stop:
            end = min(window.stop, first + max(1, self._await()))
            self.first_steps.append(first)
            yield range(first, end)
            first = end
            self._report("done")
        self._await()

    def _report(self, words: str) -> None:
        os.write(self._reports, f"{self._rank} {words}\n".encode())

    def _await(self) -> int:
        """Wait for the next turn; return the number of its iterations."""
        line = b""
        while not line.endswith(b"\n"):
            read = os.read(self._turn, 1)
            if not read:
                raise WorkerFailure(
                    "turns-ended",
                    "the process that gives both arms of a pair their turns has ended",
                )
            line += read
        return int(line)
