"""Verdicts on pairs of runs: what forbids to judge, the margins, and the other gated metrics."""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import replace
from typing import Any

import pytest

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.run import MACHINE_DRIFTED, Problem, RankSummary, RunSummary
from pytest_dlperf.core.verdict import GOOD, Prior, Rule, Verdict
from pytest_dlperf.judge.interleaved import judge_interleaved
from pytest_dlperf.judge.stats import family, priors
from tests.helpers.judge_builders import CONDITIONS, case, fixed_runs, measurement, run


def pairs(
    change: float, count: int = 10, *, drift: float = 0.0
) -> tuple[Measurement, Measurement]:
    """Return two arms whose runs share what the machine does, and differ by ``change``."""
    noise = random.Random(f"{change} {count}")
    machine = [100 * (1 + drift * i / count) * noise.gauss(1, 0.05) for i in range(count)]
    now = [level * (1 + change) * noise.gauss(1, 0.004) for level in machine]
    return measurement(now), measurement(machine)


@pytest.mark.parametrize("drift", [0.0, -0.5])
@pytest.mark.parametrize(
    ("change", "verdict"),
    [(0.0, Verdict.PASSED), (-0.1, Verdict.REGRESSED), (0.1, Verdict.IMPROVED)],
)
def test_what_the_machine_does_slowly_is_in_both_arms(
    change: float, verdict: Verdict, drift: float
):
    now, before = pairs(change, drift=drift)
    judged = judge_interleaved(case(), now, before, Rule(), against="v1")
    assert judged.verdict is verdict
    assert judged.throughput.change == pytest.approx(change, abs=0.01)
    low, high = judged.throughput.interval or (0, 0)
    assert low < judged.throughput.change < high
    assert judged.throughput.tolerance == 0.03
    assert not judged.throughput.provisional
    assert "v1" in judged.reason
    assert "in 10 pairs of runs" in judged.reason


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


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("change", "verdict"), [(0.0, Verdict.PASSED), (-0.05, Verdict.REGRESSED)]
)
def test_neighbours_that_both_arms_meet_in_their_turns_do_not_hide_a_change(
    change: float, verdict: Verdict, seed: int
):
    now, before = in_lock_step(change, seed)
    judged = judge_interleaved(case(), now, before, Rule(tolerance=0.03))
    assert judged.throughput.verdict is verdict
    assert judged.throughput.change == pytest.approx(change, abs=0.005)
    assert "in 10 pairs of runs in lock-step" in judged.reason


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("change", "verdict"), [(0.0, Verdict.PASSED), (-0.05, Verdict.REGRESSED)]
)
def test_what_stored_runs_vary_by_is_not_what_pairs_in_lock_step_vary_by(
    change: float, verdict: Verdict, seed: int
):
    learnt = Prior(run_sd=0.08, session_sd=0.05, run_df=30, median_run_sd=0.08, median_run_df=30)
    now, before = in_lock_step(change, seed)
    judged = judge_interleaved(case(), now, before, Rule(tolerance=0.03, prior=learnt))
    assert judged.throughput.verdict is verdict
    # Launches that alternate vary by it
    apart = priors.of_pairs("cpu", Rule(prior=learnt))
    assert (apart.run_sd, apart.run_df) == (0.08, 30)
    # A machine that was seen to be quieter than the built-in prior
    quiet = Rule(prior=Prior(run_sd=0.001, session_sd=0.001))
    assert priors.of_pairs("cpu", quiet, in_turns=True) is quiet.prior


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
        assert judge_interleaved(case(), *arms, Rule(tolerance=0.05)).verdict is verdict
        # The rates of runs that alternate have the machine's drift in them.
        alone = [
            replace(arm, runs=tuple(replace(one, turns=()) for one in arm.runs)) for arm in arms
        ]
        judged = judge_interleaved(case(), *alone, Rule(tolerance=0.05))
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
    judged = judge_interleaved(case(), leaking(now), before, Rule(tolerance=0.05))
    assert judged.verdict is Verdict.REGRESSED
    # The other arm's leak is no slowdown, nor is one that both have excused by its faster half
    for arms in ((now, leaking(before)), (leaking(now), with_codes(before, "drift"))):
        assert judge_interleaved(case(), *arms, Rule(tolerance=0.05)).verdict is Verdict.UNSTEADY


def test_pairs_of_turns_vary_less_than_medians_of_whole_windows():
    in_turns, apart = [], []
    for seed in range(20):
        arms = in_lock_step(0.0, seed, count=3)
        in_turns.append(judge_interleaved(case(), *arms, Rule()).throughput.change)
        alone = [
            replace(arm, runs=tuple(replace(one, turns=()) for one in arm.runs)) for arm in arms
        ]
        judged = judge_interleaved(case(), *alone, Rule())
        apart.append(judged.throughput.change)
        assert "lock-step" not in judged.reason
    assert statistics.pstdev(apart) > 2 * statistics.pstdev(in_turns)


def test_iterations_in_lock_step_count_by_the_work_they_do():
    now, before = in_lock_step(0.0, 1)
    doubled = [
        replace(one, estimates={"median_step": 2 * one.estimates["median_step"]})
        for one in now.runs
    ]
    judged = judge_interleaved(case(), replace(now, runs=tuple(doubled)), before, Rule())
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
    judged = judge_interleaved(case(), arms[0], arms[1], Rule())
    assert judged.throughput.change == 0


def test_the_tolerance_is_the_command_lines_then_the_cases():
    now, before = pairs(0.0)
    for rule, declared, used in ((0.2, 0.1, 0.2), (None, 0.1, 0.1)):
        judged = judge_interleaved(case(tolerance=declared), now, before, Rule(tolerance=rule))
        assert judged.throughput.tolerance == used


def test_what_is_open_says_how_many_pairs_it_would_take():
    now, before = pairs(-0.02, 3)
    judged = judge_interleaved(case(), now, before, Rule())
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert "more pairs" in judged.reason
    assert f"--dlperf-max-runs={judged.throughput.runs_needed}" in judged.reason


def test_runs_without_a_pair_and_impossible_rates_are_errors():
    with pytest.raises(CaseError, match="do not form pairs"):
        judge_interleaved(case(), measurement([1.0, 2.0]), measurement([1.0]), Rule())
    with pytest.raises(CaseError, match="is not a throughput"):
        judge_interleaved(case(), measurement([1.0]), measurement([0.0]), Rule())


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    ("problem", "verdict"),
    [
        ("disturbed", Verdict.INCOMPARABLE),
        ("batch-unchecked", Verdict.INCOMPARABLE),
        ("drift", Verdict.UNSTEADY),
    ],
)
def test_either_arm_may_forbid_to_judge(side: int, problem: str, verdict: Verdict):
    arms = [measurement([100.0] * 3), measurement([100.0] * 3)]
    arms[side] = measurement([100.0] * 3, problem=problem)
    judged = judge_interleaved(case(), *arms, Rule())
    assert judged.verdict is verdict
    assert "it was so" in judged.reason
    assert judged.throughput.change == pytest.approx(0)
    assert not judged.throughput.is_judged


def test_other_conditions_are_named_unless_the_arms_differ_in_them_on_purpose():
    now = measurement([100.0] * 10, conditions=replace(CONDITIONS, threads_per_rank=2))
    before = measurement([100.0] * 10)
    judged = judge_interleaved(case(), now, before, Rule())
    assert judged.verdict is Verdict.INCOMPARABLE
    assert "threads_per_rank: 2, was 1" in judged.reason
    judged = judge_interleaved(case(), now, before, Rule(), varied=["threads_per_rank"])
    assert judged.verdict is Verdict.PASSED


def with_ranks(measured: Measurement, **fields: Any) -> Measurement:
    values = {
        "node": "here", "seconds": 1.0, "cpu_seconds": None, "peak_memory_bytes": None,
        "loss_first": 2.0, "loss_last": 1.0, **fields,
    }  # fmt: skip
    ranks = tuple(RankSummary(rank=rank, **values) for rank in range(2))
    return replace(measured, runs=tuple(replace(run, ranks=ranks) for run in measured.runs))


def test_a_loss_that_falls_otherwise_is_fast_but_wrong():
    now, before = (with_ranks(arm) for arm in pairs(0.0))
    assert judge_interleaved(case(), now, before, Rule()).verdict is Verdict.PASSED
    judged = judge_interleaved(case(), with_ranks(now, loss_last=1.9), before, Rule())
    assert judged.verdict is Verdict.ERROR
    assert "fast but wrong" in judged.reason
    assert "the other arm's fell by 50.0 %" in judged.reason


def test_cpu_seconds_are_gated_on_cpus():
    now, before = (with_ranks(arm, cpu_seconds=10.0) for arm in pairs(0.0))
    judged = judge_interleaved(case(), now, before, Rule())
    assert judged.verdict is Verdict.PASSED
    found = judged.metrics["cpu_seconds"]
    assert (found.now, found.before) == (0.2, 0.2)  # two ranks, 100 iterations
    busy = with_ranks(now, cpu_seconds=15.0)
    judged = judge_interleaved(case(), busy, before, Rule())
    assert judged.verdict is Verdict.REGRESSED
    assert judged.metrics["cpu_seconds"].change == pytest.approx(0.5)
    assert judged.reason.startswith("CPU seconds of an iteration grew by 50.0 % (0.2 to 0.3 s;")
    unknown = judge_interleaved(case(), with_ranks(now), before, Rule())
    assert "cpu_seconds" not in unknown.metrics


def test_more_cpu_seconds_for_a_faster_training_are_a_trade():
    now, before = pairs(0.3)
    judged = judge_interleaved(
        case(), with_ranks(now, cpu_seconds=15.0), with_ranks(before, cpu_seconds=10.0), Rule()
    )
    assert judged.verdict is Verdict.IMPROVED
    assert "CPU seconds of an iteration grew" in judged.reason


def test_memory_that_grew_fails():
    now, before = (measurement([100.0] * 10, memory=size << 20) for size in (1500, 1000))
    judged = judge_interleaved(case(), now, before, Rule())
    assert judged.verdict is Verdict.REGRESSED
    assert "peak memory grew by 50.0 % (1000 to 1500 MiB; 90 % interval" in judged.reason


def with_medians(measured: Measurement, rates: list[float]) -> Measurement:
    runs = tuple(
        replace(run, estimates={"median_step": rate})
        for run, rate in zip(measured.runs, rates, strict=True)
    )
    return replace(measured, runs=runs)


def stalled(hit: dict[int, float], change: float = 0.0) -> tuple[Measurement, Measurement]:
    """Return arms of equal medians, where whole windows of now are slower, some by what hit."""
    now, before = pairs(change)
    medians = [100.0 + i / 10 for i in range(10)]
    rates = [rate * hit.get(i, 1.0) for i, rate in enumerate(now.throughputs)]
    return with_medians(measurement(rates), medians), with_medians(before, medians)


def test_one_stall_of_the_machine_moves_neither_the_median_nor_the_whole_window():
    judged = judge_interleaved(case(), *stalled({3: 0.4}), Rule())
    assert judged.verdict is Verdict.PASSED
    assert judged.metrics["whole_window"].verdict is Verdict.PASSED


def test_a_window_that_is_open_is_not_passed_and_says_how_many_pairs_it_takes():
    judged = judge_interleaved(case(), *stalled({2: 0.9, 5: 0.85, 7: 0.9}), Rule(), against="v1")
    assert judged.throughput.verdict is Verdict.PASSED
    window = judged.metrics["whole_window"]
    assert window.verdict is Verdict.INCONCLUSIVE
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert judged.reason.startswith("work over the whole window is ")
    assert "not certainly within the tolerance of 3.0 %, as iterations stall" in judged.reason
    assert window.runs_needed is not None
    assert judged.throughput.runs_needed == window.runs_needed > 10
    assert f"--dlperf-max-runs={window.runs_needed}" in judged.reason
    assert "the median iteration: unchanged from v1" in judged.reason


@pytest.mark.parametrize("slower", [0.035, 0.048])
def test_a_whole_window_that_is_slower_than_the_tolerance_is_not_passed(slower: float):
    """The median iteration is unchanged: stalls of a tenth of the iterations, in every run."""
    tries, passed = 40, 0
    for seed in range(tries):
        noise = random.Random(seed)
        medians = [[100 * math.exp(noise.gauss(0, 0.01)) for _ in range(10)] for _ in range(2)]
        windows = [rate * (1 - slower) for rate in medians[0]]
        now = with_medians(measurement(windows), medians[0])
        before = with_medians(measurement(medians[1]), medians[1])
        passed += judge_interleaved(case("1n1g"), now, before, Rule(family=96)).verdict in GOOD
    assert passed <= 0.05 * tries


def test_iterations_that_stall_in_every_run_of_one_arm_fail():
    now, before = pairs(-0.2)
    medians = [100.0 + i / 10 for i in range(10)]
    judged = judge_interleaved(
        case(), with_medians(now, medians), with_medians(before, medians), Rule()
    )
    assert judged.throughput.verdict is Verdict.PASSED
    assert judged.verdict is Verdict.REGRESSED
    assert "some iterations stall" in judged.reason


def test_what_is_slower_by_its_median_says_what_the_whole_window_lost():
    now, before = pairs(-0.3)
    medians = [95.0 + i / 10 for i in range(10)], [100.0 + i / 10 for i in range(10)]
    judged = judge_interleaved(
        case(), with_medians(now, medians[0]), with_medians(before, medians[1]), Rule()
    )
    assert judged.throughput.verdict is judged.verdict is Verdict.REGRESSED
    assert "% slower than the other arm" in judged.reason
    assert "some iterations stall" in judged.reason


def test_an_alarm_of_the_throughput_may_spend_more_than_those_of_other_metrics() -> None:
    rule = Rule(family=24)
    parts = family.of_throughput(rule).alarm_share, family.of_other(rule).alarm_share
    assert parts[0] > 10 * parts[1]
    # The whole window, peak memory and CPU seconds.
    assert parts[0] + 3 * parts[1] == pytest.approx(1.0)


def drifting() -> tuple[Measurement, Measurement]:
    """Return arms on a machine that slows down: medians rise by 1 %, pairs fall by 2 %."""
    before = [130.0, 120.0, 100.0, 80.0, 70.0]
    now = [127.4, 117.6, 101.0, 78.4, 68.6]
    return measurement(now), measurement(before)


def test_the_numbers_beside_a_change_are_changed_by_it():
    now, before = drifting()
    judged = judge_interleaved(case(), now, before, Rule(), against="v1")
    found = judged.throughput
    assert found.change is not None
    assert found.change < -0.01
    assert now.throughput > before.throughput
    assert found.before == 100.0
    assert found.now == pytest.approx(100 * (1 + found.change))
    assert judged.reason.startswith(
        f"{-100 * found.change:.1f} % slower than v1 (100 to {found.now:.4g} images/s; 90 %"
    )


def test_the_sentence_says_that_rates_are_those_of_the_median_iteration():
    now, before = pairs(-0.1)
    medians = [with_medians(arm, list(arm.throughputs)) for arm in (now, before)]
    judged = judge_interleaved(case(), *medians, Rule(), against="v1")
    assert " images/s at the median iteration; 90 % interval" in judged.reason


def test_of_a_fixed_number_of_pairs_no_most_is_offered() -> None:
    rng = random.Random(3)
    noise = [rng.gauss(0, 0.05) for _ in range(6)]
    now = measurement([100 * math.exp(one) for one in noise])
    fixed = case(protocol=fixed_runs(6))
    rule = Rule(tolerance=0.01)
    judged = judge_interleaved(fixed, now, measurement([100.0] * 6), rule, against="v1")
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert f"--dlperf-runs={judged.throughput.runs_needed}" in judged.reason
