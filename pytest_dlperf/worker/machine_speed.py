"""Samples the machine's speed within the measured window of a training on CPUs.

The window goes in blocks of iterations, and before, between and after them each rank does a
little fixed work: a training step of two convolutions, and an all-reduce where there are several
ranks. What slows the training (other guests of the host, clocks, the place of threads on cores)
slows this work as well, so that the judge can take it out. It belongs to no iteration.

What a rank itself does in the background would slow it too, and be taken for the machine. So
nothing is sampled where it reads data, has started processes of its own, as loaders do, or
computes while it waits.
"""

from __future__ import annotations

import hashlib
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from pytest_dlperf.core.wire import (
    CPU_VARIABLES,
    INTERPRETER_VARIABLES,
    LIBRARY_VARIABLES,
    iterations_of_a_turn,
)
from pytest_dlperf.core.wire_records import MachineSpeedRecord
from pytest_dlperf.worker.frameworks.base import Framework
from pytest_dlperf.worker.host import has_children, sample
from pytest_dlperf.worker.records import RecordWriter
from pytest_dlperf.worker.settings import configures, flags
from pytest_dlperf.worker.turns import Turns

#: Share of the window that all samples may take, and the seconds that they may take in a short
#: one, up to as long as itself: its launch takes seconds.
_SHARE: Final = 0.10
_ANY_WINDOW_S: Final = 0.05
#: Repetitions of a sample at least: the first finds the caches full of the training.
_FEWEST_REPETITIONS: Final = 2
#: Length of a sample at most: what a step takes may be guessed badly from a short warm-up.
_LONGEST_S: Final = 0.1
#: With fewer samples than this, nothing is sampled.
_FEWEST_SAMPLES: Final = 3
#: Repetitions before the window: the first ones set the work up, the others are timed.
_SET_UP: Final = 3
_TIMED: Final = 5
#: Bytes of the all-reduce.
_REDUCED: Final = 2**18
#: How long a rank is watched while it waits, and how many cores it may use meanwhile.
_WATCHED_S: Final = 0.05
_IDLE_CORES: Final = 0.25
#: Before it is watched once more: Intel's OpenMP lets its threads spin for 0.2 s after their work
#: (KMP_BLOCKTIME).
_SETTLED_S: Final = 0.25


class Blocks(NamedTuple):
    """How a window is divided."""

    #: Iterations of a block.
    iterations: int
    #: Repetitions of the fixed work in a sample.
    repetitions: int


def blocks_of(iterations: int, step_s: float, work_s: float) -> Blocks | None:
    """Return how a window is divided; None where the samples would take too long.

    ``step_s`` and ``work_s`` are the seconds of an iteration and of the fixed work.
    """
    window_s = iterations * step_s
    budget = min(window_s, max(_SHARE * window_s, _ANY_WINDOW_S)) / work_s
    count = math.ceil(iterations / iterations_of_a_turn(iterations, step_s))
    count = min(count, int(budget / _FEWEST_REPETITIONS) - 1)
    if count + 1 < _FEWEST_SAMPLES:
        return None
    each = math.ceil(iterations / count)
    samples = math.ceil(iterations / each) + 1
    most = max(_FEWEST_REPETITIONS, int(_LONGEST_S / work_s))
    return Blocks(each, min(most, int(budget / samples)))


class SpeedSampled(Turns):
    """The measured window in blocks, with a sample of the machine's speed at each end of them.

    All ranks sample at once. A window that is too short for it, or of a rank that computes in the
    background, is one block without samples.
    """

    def __init__(self, framework: Framework, *, polls: bool) -> None:
        """Sample by ``framework``, which ``polls`` if it uses a core while its ranks wait."""
        self._framework, self._polls = framework, polls
        self._seconds: list[float] = []
        self._first_steps: list[int] = []
        self._repetitions = 0
        self._name = ""

    def of(self, window: range, *, typical_s: float) -> Iterator[range]:
        """Yield the iterations of each block, after a sample; the last is followed by one."""
        # Now that the first steps are done: loaders often start with them. Ranks choose alike.
        if self._mean(float(self._computes_in_background())):
            yield window
            return
        work = self._work()
        blocks = blocks_of(
            len(window), self._mean(typical_s), self._mean(self._typical_work_s(work))
        )
        if blocks is None:
            yield window
            return
        self._repetitions = blocks.repetitions
        for first in range(window.start, window.stop, blocks.iterations):
            self._sample(work)
            self._first_steps.append(first)
            yield range(first, min(window.stop, first + blocks.iterations))
        self._sample(work)
        if self._mean(float(self._reads_ahead())):
            self._seconds.clear()

    def write(self, records: RecordWriter) -> None:
        """Write the record ``machine_speed``; nothing where nothing was sampled."""
        if self._seconds:
            records.write(
                machine_speed=MachineSpeedRecord(
                    work=self._name,
                    repetitions=self._repetitions,
                    seconds=self._seconds,
                    first_steps=self._first_steps,
                )
            )

    def _reads_ahead(self) -> bool:
        return self._framework.job.feed.used or has_children()

    def _computes_in_background(self) -> bool:
        if self._reads_ahead():
            return True
        if self._polls or _cores_while_waiting() <= _IDLE_CORES:
            return False
        time.sleep(_SETTLED_S)
        return _cores_while_waiting() > _IDLE_CORES

    def _work(self) -> Callable[[], Any]:
        self._name, step = self._framework.fixed_step()
        self._name += _set_up()
        if self._framework.job.world_size == 1:
            return step
        reduce = self._framework.all_reduce_of(_REDUCED)

        def step_and_reduce() -> None:
            step()
            reduce()

        return step_and_reduce

    def _typical_work_s(self, work: Callable[[], Any]) -> float:
        for _ in range(_SET_UP):
            work()
        return statistics.median(_seconds(work, 1) for _ in range(_TIMED))

    def _sample(self, work: Callable[[], Any]) -> None:
        self._framework.barrier()
        self._seconds.append(_seconds(work, self._repetitions))

    def _mean(self, value: float) -> float:
        """Return the mean over the ranks, which have to choose alike."""
        if self._framework.job.world_size == 1:
            return value
        return self._framework.mean_over_ranks(value)


def _set_up() -> str:
    """Return the cores of the rank, and a digest of variables and flags that change the work."""
    prefixes = (*CPU_VARIABLES, *LIBRARY_VARIABLES, *INTERPRETER_VARIABLES)
    found = {name: v for name, v in os.environ.items() if configures(name, prefixes)} | flags()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f" cores={cores} {hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest()[:8]}"


def _cores_while_waiting() -> float:
    """Return how many cores this process and its descendants use while it waits."""
    begin = sample()
    time.sleep(_WATCHED_S)
    end = sample()
    return (end.own_cpu_s - begin.own_cpu_s) / (end.wall_s - begin.wall_s)


def _seconds(work: Callable[[], Any], repetitions: int) -> float:
    begin_s = time.perf_counter()
    for _ in range(repetitions):
        work()
    return time.perf_counter() - begin_s
