"""Pairs whose arms took turns: what both met is in neither arm's change."""

from __future__ import annotations

import random
import statistics
from dataclasses import replace

import pytest

from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.run import MACHINE_DRIFTED, Problem, RunSummary
from pytest_dlperf.core.verdict import Rule, Verdict
from pytest_dlperf.judge.verdict import judge_pairs
from tests.helpers.judge_builders import case, measurement, run


def in_lock_step(change: float, seed: int, count: int = 10) -> tuple[Measurement, Measurement]:
    """Return two arms in lock-step, on a machine whose neighbours come and go between turns."""
    noise = random.Random(seed)
    turns = tuple(range(50, 150, 10))
    sides: tuple[list[RunSummary], list[RunSummary]] = ([], [])
    for _ in range(count):
        steps: tuple[list[float], list[float]] = ([0.01] * 50, [0.01] * 50)
        for _ in turns:
            # Mostly both turns of a pair meet the same neighbour, who takes a sixth of it.
            level_s = 0.01 * noise.choice([1, 1.2])
            for side, factor in zip(steps, (1 / (1 + change), 1), strict=True):
                step_s = level_s if noise.random() > 0.05 else 0.012
                side += [step_s * factor * noise.gauss(1, 0.02) for _ in range(10)]
        for side, of_side in zip(sides, steps, strict=True):
            rates = {"median_step": 1 / statistics.median(of_side[50:])}
            rate = 100 / sum(of_side[50:])
            side.append(
                replace(run(rate), estimates=rates, step_seconds=tuple(of_side), turns=turns)
            )
    now, before = (replace(measurement([1.0] * count), runs=tuple(side)) for side in sides)
    return now, before


def with_codes(arm: Measurement, *codes: str) -> Measurement:
    """Return ``arm`` with these problems, in all its runs."""
    problems = tuple(Problem(code=code, message="it drifts") for code in codes)
    runs = tuple(replace(one, problems=problems) for one in arm.runs)
    return replace(arm, runs=runs, problems=problems)


@pytest.mark.parametrize(
    ("codes", "verdict"),
    [(("drift", MACHINE_DRIFTED), Verdict.PASSED), (("drift",), Verdict.UNSTEADY)],
)
def test_a_drift_that_the_other_arm_shares_is_the_machines(
    codes: tuple[str, ...], verdict: Verdict
):
    now, before = in_lock_step(0.0, 1)
    for arms in ((with_codes(now, *codes), before), (now, with_codes(before, *codes))):
        assert judge_pairs(case(), *arms, Rule(tolerance=0.05)).verdict is verdict
        # The rates of runs that alternate have the machine's drift in them.
        alone = [
            replace(arm, runs=tuple(replace(one, turns=()) for one in arm.runs)) for arm in arms
        ]
        judged = judge_pairs(case(), *alone, Rule(tolerance=0.05))
        assert judged.verdict is Verdict.UNSTEADY


def leaking(arm: Measurement) -> Measurement:
    """Return ``arm`` with a second half whose steps take half as long again."""
    runs = []
    for one in arm.runs:
        steps = (*one.step_seconds[:100], *(1.5 * step_s for step_s in one.step_seconds[100:]))
        rates = {"median_step": 1 / statistics.median(steps[50:])}
        runs.append(
            replace(one, throughput=100 / sum(steps[50:]), step_seconds=steps, estimates=rates)
        )
    return with_codes(replace(arm, runs=tuple(runs)), "drift")


def test_a_leak_of_one_arm_is_a_slowdown_although_its_first_half_is_as_fast():
    now, before = in_lock_step(0.0, 1)
    judged = judge_pairs(case(), leaking(now), before, Rule(tolerance=0.05))
    assert judged.verdict is Verdict.REGRESSED
    # The other arm's leak is no slowdown, nor is one that both have excused by its faster half
    for arms in ((now, leaking(before)), (leaking(now), with_codes(before, "drift"))):
        assert judge_pairs(case(), *arms, Rule(tolerance=0.05)).verdict is Verdict.UNSTEADY


def disturbed_at_first(arm: Measurement, factor: float) -> Measurement:
    """Return ``arm`` with steps that take so many times as long in the first half."""
    runs = []
    for run_alone in arm.runs:
        *warm, _ = run_alone.step_seconds[:51]
        steps_s = run_alone.step_seconds[50:]
        steps = (*(factor * step_s for step_s in steps_s[:50]), *steps_s[50:])
        rates = {"median_step": 1 / statistics.median(steps)}
        runs.append(
            replace(
                run_alone,
                throughput=len(steps) / sum(steps),
                step_seconds=(*warm, *steps),
                estimates=rates,
            )
        )
    return with_codes(replace(arm, runs=tuple(runs)), "drift")


def test_an_arm_that_is_slower_in_both_halves_is_slower_although_the_other_one_drifts():
    """A neighbour slows both arms for half of the window, and not by the same factor."""
    now, before = in_lock_step(-0.65, 1, count=3)
    arms = (disturbed_at_first(now, 3.0), disturbed_at_first(before, 5.0))
    assert judge_pairs(case(), *arms, Rule()).verdict is Verdict.REGRESSED
    # In one half it is as fast: which of them is the case's own is open
    now, before = in_lock_step(0.0, 1, count=3)
    arms = (disturbed_at_first(now, 8.0), disturbed_at_first(before, 1.0))
    assert judge_pairs(case(), *arms, Rule()).verdict is Verdict.UNSTEADY


def test_pairs_of_turns_vary_less_than_medians_of_whole_windows():
    in_turns, apart = [], []
    for seed in range(20):
        arms = in_lock_step(0.0, seed, count=3)
        in_turns.append(judge_pairs(case(), *arms, Rule()).throughput.change)
        alone = [
            replace(arm, runs=tuple(replace(one, turns=()) for one in arm.runs)) for arm in arms
        ]
        judged = judge_pairs(case(), *alone, Rule())
        apart.append(judged.throughput.change)
        assert "lock-step" not in judged.text
    assert statistics.pstdev(apart) > 2 * statistics.pstdev(in_turns)


def test_iterations_in_lock_step_count_by_the_work_they_do():
    now, before = in_lock_step(0.0, 1)
    doubled = [
        replace(one, estimates={"median_step": 2 * one.estimates["median_step"]})
        for one in now.runs
    ]
    judged = judge_pairs(case(), replace(now, runs=tuple(doubled)), before, Rule())
    assert judged.throughput.change == pytest.approx(1, abs=0.01)


def test_a_last_turn_that_was_cut_short_is_no_pair_of_turns():
    arms = []
    for of_last_s in (0.05, 0.01):
        steps_s = (*[0.01] * 149, of_last_s)
        one = replace(
            run(100.0),
            estimates={"median_step": 100.0},
            step_seconds=steps_s,
            turns=(50, 149),
        )
        arms.append(replace(measurement([1.0] * 5), runs=(one,) * 5))
    judged = judge_pairs(case(), arms[0], arms[1], Rule())
    assert judged.throughput.change == 0


def test_turns_by_time_are_compared_though_a_slower_arm_has_fewer_iterations_in_them():
    """The machine slows down for a share of the turns that is another one of their iterations."""
    arms = []
    for factor in (1.25, 1.0):
        steps: list[float] = []
        turns = []
        for level_s in (0.01, 0.01, 0.05, 0.05, 0.05):
            turns.append(len(steps))
            steps += [factor * level_s] * round(1 / (factor * level_s))
        rates = {"median_step": 1 / statistics.median(steps)}
        summary = replace(
            run(len(steps) / sum(steps)),
            estimates=rates,
            step_seconds=tuple(steps),
            turns=tuple(turns),
        )
        arms.append(replace(measurement([1.0] * 5), runs=(summary,) * 5))
    judged = judge_pairs(case(), arms[0], arms[1], Rule())
    assert judged.throughput.change == pytest.approx(1 / 1.25 - 1)
    assert judged.verdict is Verdict.REGRESSED


def test_steps_that_are_served_in_bursts_count_by_their_mean():
    """By two loader processes one step is short and the next long; neither is the median."""
    arms = []
    for slower in (1.2, 1.0):
        # A short one more in each turn of the slower reader: its median is the short one
        short, long = 0.001, 0.019 * slower
        turn = [short, long] * 4 + [short if slower > 1 else long]
        long_s = (sum([0.01] * 9) * slower - turn.count(short) * short) / turn.count(long)
        steps = [short if step == short else long_s for step in turn] * 16
        summary = replace(
            run(100.0),
            data_wait_share=0.8,
            estimates={"median_step": 1 / statistics.median(steps)},
            step_seconds=(*[0.01] * 50, *steps),
            turns=tuple(range(50, 50 + len(steps), 9)),
        )
        arms.append(replace(measurement([1.0] * 5), runs=(summary,) * 5))
    judged = judge_pairs(case(), arms[0], arms[1], Rule())
    assert judged.throughput.change == pytest.approx(1 / 1.2 - 1)


def test_runs_that_alternate_count_by_all_their_time_where_steps_wait_for_data():
    """Most batches are ready, and every fifth comes late: the median iteration is as fast."""
    arms = []
    for late_s in (0.2, 0.1):
        steps = ([0.01] * 4 + [late_s]) * 20
        summary = replace(
            run(100 / sum(steps)),
            data_wait_share=0.5,
            estimates={"median_step": 1 / statistics.median(steps)},
            step_seconds=(*[0.01] * 50, *steps),
        )
        arms.append(replace(measurement([1.0] * 5), runs=(summary,) * 5))
    judged = judge_pairs(case(), arms[0], arms[1], Rule())
    assert judged.throughput.change == pytest.approx(0.14 / 0.24 - 1)
    assert judged.verdict is Verdict.REGRESSED
