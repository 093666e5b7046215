"""The log of a program that is frozen between its turns, and its size at the end of each."""

from __future__ import annotations

import random
from dataclasses import dataclass

from pytest_dlperf.core.log_pattern import pattern
from pytest_dlperf.measure.logs.turns import LogTurn

SECONDS = pattern(r"step (?P<step>\d+) took (?P<seconds>\S+) s")
RUNNING = pattern(SECONDS.regex, averaging="running")
TURN_S = 0.1


@dataclass(kw_only=True)
class Program:
    """A program that prints the seconds of an iteration, by a clock that goes on while frozen."""

    step_s: float = 0.009
    #: Of each arm.
    turn_s: float = TURN_S
    iterations: int = 150
    #: Iterations of a print, and bytes that are written at once.
    every: int = 1
    buffer: int = 1
    #: Iterations whose clock is read before the end of a turn, and whose print comes after it.
    caught: tuple[int, ...] = ()
    #: Iterations of which half the line is written in the turn.
    torn: tuple[int, ...] = ()
    #: Whether a print is the mean since the first iteration, or that of the last prints.
    is_running: bool = False
    smoothed: int = 1
    #: Turns in which the program does not come to work.
    idle: tuple[int, ...] = ()
    #: Iterations from a stall of the training to the next, and its seconds.
    stalls_every: int = 0
    stall_s: float = 0.0
    #: Of what a step varies by, and of when it begins to train; None for steps of one length.
    seed: int | None = None

    def log(self) -> tuple[bytes, list[LogTurn]]:
        """Return the log, and its turns; what follows the last is in one piece."""
        log, waiting, clock_s = b"", b"", 0.0
        turns = [LogTurn(0, 0, 0.0, counts=False)]
        left_s, last_print_s, prints = self.turn_s, 0.0, []

        def freeze(*, tail: bytes = b"") -> None:
            nonlocal clock_s, left_s, log
            log += tail
            turns.append(LogTurn(len(turns), len(log), self.turn_s - left_s))
            clock_s += self.turn_s
            left_s = self.turn_s

        noise = None if self.seed is None else random.Random(self.seed)
        for index in range(self.iterations):
            while len(turns) in self.idle:
                clock_s, left_s = clock_s + left_s, 0.0
                freeze()
            work_s = self._work_s(index, noise)
            while work_s > left_s:
                work_s -= left_s
                clock_s, left_s = clock_s + left_s, 0.0
                freeze()
            clock_s, left_s = clock_s + work_s, left_s - work_s
            if (index + 1) % self.every:
                continue
            prints.append((clock_s - last_print_s) / self.every)
            last_print_s = clock_s
            mean = clock_s / (index + 1) if self.is_running else _mean(prints[-self.smoothed :])
            line = f"step {index} took {mean:.9f} s\n".encode()
            if index in self.caught:
                freeze()
            if index in self.torn:
                freeze(tail=line[:7])
                line = line[7:]
            waiting += line
            if len(waiting) >= self.buffer:
                log, waiting = log + waiting, b""
        return log + waiting, turns

    def _work_s(self, index: int, noise: random.Random | None) -> float:
        """Return the seconds of an iteration."""
        is_stall = self.stalls_every and not (index + 1) % self.stalls_every
        step_s = self.step_s
        if noise is not None:
            step_s = noise.gauss(step_s, step_s / 50) + (0 if index else noise.random())
        return step_s + (self.stall_s if is_stall else 0)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
