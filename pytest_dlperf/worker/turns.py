"""The turns of a rank: warm-up and window in one piece, or in turns with the other arm of a pair.

In lock-step both arms live at once, and one computes while the other waits. A rank that waits
reads from a FIFO, and is frozen between the turns of its window. ``launch/turns/node.py`` is the
other end. Standard library only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from pytest_dlperf.core.wire import TURN_REPORTS, rank_file
from pytest_dlperf.core.wire_records import TurnsRecord
from pytest_dlperf.worker import host
from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.records import RecordWriter


class Turns:
    """The warm-up and the measured window in one piece."""

    def await_warm_up(self) -> None:
        """Wait until this rank may warm up."""

    def begin_window(self, typical_s: float) -> int:
        """Wait for the first turn, for steps of ``typical_s`` or so; return its iterations.

        They may be more than the window has.
        """
        return sys.maxsize

    def next_turn(self, first_step: int) -> int:
        """End a turn, and wait for the next, from ``first_step`` on; return its iterations."""
        raise NotImplementedError

    def end_window(self) -> None:
        """End the last turn."""

    def leave(self) -> None:
        """Take no more turns: this rank has failed, and goes on all the same."""

    def split(self, window: range, *, typical_s: float) -> Iterator[range]:
        """Yield the iterations of each turn, when it begins; a step takes ``typical_s`` or so."""
        first, count = window.start, self.begin_window(typical_s)
        while True:
            end = min(window.stop, first + count)
            yield range(first, end)
            if end == window.stop:
                break
            first, count = end, self.next_turn(end)
        self.end_window()

    def write(self, records: RecordWriter) -> None:
        """Write the record of the turns; a window in one piece has none."""


class InTurns(Turns):
    """The warm-up, then the measured window in turns of a few iterations, as the referee allows.

    The last turn is followed by a wait until the other arm has had its last one as well, so that
    what a rank does after the window does not disturb it. Raises ``WorkerFailure`` if the referee
    cannot be reached, as from a container with a kernel of its own, or is gone.
    """

    def __init__(self, folder: Path, rank: int, *, window_begin: int) -> None:
        self._rank = rank
        self._window_begin = window_begin
        self._first_steps: list[int] = []
        self._waited_s = self._waited_cpu_s = 0.0
        try:
            self._turn = os.open(folder / rank_file(rank, "turn"), os.O_RDONLY | os.O_NONBLOCK)
            # It has a reader from before the launch, unless that is below another kernel
            self._reports = os.open(folder / TURN_REPORTS, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            raise WorkerFailure(
                "turns-unreachable",
                f"the process that gives both arms their turns cannot be reached through {folder}:"
                f" {error.strerror}",
            ) from error
        os.set_blocking(self._turn, True)

    def await_warm_up(self) -> None:
        """Wait until this rank may warm up: alone, so that what it chooses by time is its own."""
        self._report("built")
        self._await()

    def begin_window(self, typical_s: float) -> int:
        """Wait for the first turn, for steps of ``typical_s`` or so; return its iterations."""
        self._first_steps.append(self._window_begin)
        # What loaders read ahead meanwhile is no sign of what they do between turns
        self._report(f"ready {typical_s:g}")
        return max(1, self._await())

    def next_turn(self, first_step: int) -> int:
        """End a turn, and wait for the next, from ``first_step`` on; return its iterations."""
        self._first_steps.append(first_step)
        return max(1, self._await_idle("done"))

    def end_window(self) -> None:
        """End the last turn, and wait until the other arm has had its last one."""
        self._report("done")
        self._await()

    def leave(self) -> None:
        """Take no more turns: this rank has failed, and goes on all the same."""
        self._report("left")

    def write(self, records: RecordWriter) -> None:
        """Write the record of the turns."""
        records.write(turns=self.record())

    def record(self) -> TurnsRecord:
        """Return the first iteration of each turn, and what this rank used while it waited."""
        return TurnsRecord(
            first_steps=self._first_steps,
            waited_seconds=self._waited_s,
            waited_cpu_seconds=self._waited_cpu_s,
        )

    def _report(self, words: str) -> None:
        os.write(self._reports, f"{self._rank} {words}\n".encode())

    def _await_idle(self, words: str) -> int:
        """Report, and wait for the next turn; count what this rank's processes do meanwhile."""
        begin = host.sample()
        self._report(words)
        iterations = self._await()
        end = host.sample()
        self._waited_s += end.wall_s - begin.wall_s
        self._waited_cpu_s += end.own_cpu_s - begin.own_cpu_s
        return iterations

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
