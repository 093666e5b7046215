"""Stalls of a training whose log alone is read: turns by time do not hide them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.core.run import Run, RunSummary, TimedTurn
from pytest_dlperf.core.verdict import Judgement, Rule, Verdict
from pytest_dlperf.flow.lock_step import with_counted_turns
from pytest_dlperf.flow.timed_turns import ByTime
from pytest_dlperf.flow.user_program import summarise_program
from pytest_dlperf.judge.verdict import judge_pairs
from tests.helpers.frozen_log import SECONDS, Program
from tests.helpers.judge_builders import case as judged_case
from tests.helpers.judge_builders import measurement
from tests.helpers.record_files import case, write

#: Its logs are written and read for seconds, on any Python alike.
pytestmark = pytest.mark.once

PAIRS = 10
TURN_S = 0.15
STEADY = Program(step_s=0.02, turn_s=TURN_S, iterations=320)


def subject() -> Case:
    program = case("1n1c", command=["python", "x.py", "300"], log_format=SECONDS)
    return replace(program, protocol=Protocol(iterations=300, warmup=50))


def run_of(folder: Path, program: Program) -> Run:
    folder.mkdir(parents=True)
    log, turns = program.log()
    run = write(folder, [])
    Path(run.log).write_bytes(log)
    timed = (TimedTurn(turn.number, {"output.log": turn.end}, turn.seconds) for turn in turns)
    return replace(run, timed_turns=tuple(timed))


def pair(folder: Path, *programs: Program) -> list[RunSummary]:
    """Return the runs of a pair: of now, and of before."""
    arms = {str(side): run_of(folder / str(side), arm) for side, arm in enumerate(programs)}
    runs = with_counted_turns(subject(), arms, {}, ByTime(TURN_S), 2)
    return [summarise_program(subject(), run).summary for run in runs.values()]


def judged(folder: Path, now: Program, before: Program = STEADY) -> Judgement:
    """Return the judgement on pairs of two programs, whose steps vary."""
    pairs = [
        pair(
            folder / str(number),
            replace(now, seed=2 * number),
            replace(before, seed=2 * number + 1),
        )
        for number in range(PAIRS)
    ]
    sides = zip(*pairs, strict=True)
    arms = [replace(measurement([1.0] * PAIRS), runs=tuple(runs)) for runs in sides]
    return judge_pairs(judged_case("1n1c"), *arms, Rule(tolerance=0.05))


@pytest.mark.parametrize(
    ("every", "stall_s"),
    [
        (50, 0.055),
        *(
            pytest.param(*values, marks=pytest.mark.nightly)
            for values in [(10, 0.1), (25, 0.05), (50, 0.2), (10, 0.06), (25, 0.2), (25, 0.3)]
        ),
    ],
)
def test_what_stalls_cost_is_in_the_whole_window(tmp_path: Path, every: int, stall_s: float):
    judgement = judged(tmp_path, replace(STEADY, stalls_every=every, stall_s=stall_s))
    cost = 1 / (1 + stall_s / (every * STEADY.step_s)) - 1
    window = judgement.metrics["whole_window"]
    assert window.change == pytest.approx(cost, abs=0.02)
    assert judgement.verdict is Verdict.REGRESSED
    assert judgement.throughput.change == pytest.approx(0, abs=0.01), "stalls alone"


def test_stalls_of_both_arms_favour_neither(tmp_path: Path):
    stalling = replace(STEADY, stalls_every=10, stall_s=0.05)
    judgement = judged(tmp_path, stalling, stalling)
    assert judgement.metrics["whole_window"].change == pytest.approx(0, abs=0.01)
    assert judgement.verdict is Verdict.PASSED
