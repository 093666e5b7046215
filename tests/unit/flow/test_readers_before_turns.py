"""Waits for data before the turns of a pair: a reader is told from a machine that stood still."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.flow.lock_step import DoNotFitError, check_readers
from tests.helpers.judge_builders import run

WARMUP, WINDOW = 50, 600
STEP_S, OVERHEAD_S = 0.008, 0.001


def run_of(seed: int, alone_s: Sequence[float], in_turns_s: float = OVERHEAD_S) -> RunSummary:
    """Return a run with these waits before its turns, and ``in_turns_s`` in each step of them."""
    draw = random.Random(seed)
    waits_s = [OVERHEAD_S] * (WARMUP - len(alone_s)) + list(alone_s) + [in_turns_s] * WINDOW
    waits_s = [wait_s * draw.uniform(0.9, 1.1) for wait_s in waits_s]
    return replace(
        run(8000.0), data_wait_seconds=tuple(waits_s), step_seconds=(STEP_S,) * len(waits_s)
    )


def every(steps: int, wait_s: float) -> list[float]:
    """Return the waits of a reader that has answers for ``steps`` iterations at once."""
    return [OVERHEAD_S if number % steps else wait_s for number in range(25)]


@pytest.mark.parametrize("stall_s", [0.02, 0.1, 1.0])
@pytest.mark.parametrize("at", [0, 12, 24])
def test_a_machine_that_stood_still_once_is_no_reader(stall_s: float, at: int):
    stalled = [OVERHEAD_S] * 25
    stalled[at] = stall_s
    runs = [run_of(0, stalled)]
    check_readers(runs, WARMUP)
    for seed in range(1, 8):
        runs.append(run_of(seed, [OVERHEAD_S] * 25))
        check_readers(runs, WARMUP)


@pytest.mark.parametrize(("steps", "wait_s"), [(1, 0.004), (4, 0.02), (8, 0.08)])
def test_a_reader_that_waits_for_a_clock_is_known_by_its_first_run(steps: int, wait_s: float):
    with pytest.raises(DoNotFitError, match=r"steps waited .* ms for data in the warm-up"):
        check_readers([run_of(0, every(steps, wait_s))], WARMUP)


def test_one_that_waits_once_in_a_warm_up_is_known_by_its_second_run():
    runs = [run_of(0, every(25, 0.24))]
    check_readers(runs, WARMUP)
    with pytest.raises(DoNotFitError, match="served while it is frozen"):
        check_readers([*runs, run_of(1, every(25, 0.24))], WARMUP)


@pytest.mark.parametrize("in_turns_s", [0.004, 0.006])
def test_waits_that_are_in_the_turns_as_well_are_measured_there(in_turns_s: float):
    check_readers([run_of(seed, every(1, 0.005), in_turns_s) for seed in range(3)], WARMUP)
