"""Verdicts on pairs of runs: what forbids to judge, the margins, and the other gated metrics."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.run import RankSummary
from pytest_dlperf.core.verdict import GOOD, TOLERANCE, Rule, Verdict
from pytest_dlperf.judge.stats import family
from pytest_dlperf.judge.verdict import judge_pairs
from tests.helpers.judge_builders import CONDITIONS, case, fixed_runs, measurement


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
    judged = judge_pairs(case(), now, before, Rule(), against="v1")
    assert judged.verdict is verdict
    assert judged.throughput.change == pytest.approx(change, abs=0.01)
    low, high = judged.throughput.interval or (0, 0)
    assert low < judged.throughput.change < high
    assert judged.throughput.tolerance == TOLERANCE
    assert not judged.throughput.provisional
    assert "v1" in judged.text
    assert "in 10 pairs of runs" in judged.text


def test_the_tolerance_is_the_command_lines_then_the_cases():
    now, before = pairs(0.0)
    for rule, declared, used in ((0.2, 0.1, 0.2), (None, 0.1, 0.1)):
        judged = judge_pairs(case(tolerance=declared), now, before, Rule(tolerance=rule))
        assert judged.throughput.tolerance == used


def test_what_is_open_says_how_many_pairs_it_would_take():
    now, before = pairs(-0.035, 3)
    judged = judge_pairs(case(), now, before, Rule())
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert "more pairs" in judged.text
    assert f"--dlperf-max-runs={judged.throughput.runs_needed}" in judged.text


def test_runs_without_a_pair_and_impossible_rates_are_errors():
    with pytest.raises(CaseError, match="do not form pairs"):
        judge_pairs(case(), measurement([1.0, 2.0]), measurement([1.0]), Rule())
    with pytest.raises(CaseError, match="is not a throughput"):
        judge_pairs(case(), measurement([1.0]), measurement([0.0]), Rule())


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    ("problem", "verdict"),
    [
        ("batch-unchecked", Verdict.INCOMPARABLE),
        ("drift", Verdict.UNSTEADY),
    ],
)
def test_either_arm_may_forbid_to_judge(side: int, problem: str, verdict: Verdict):
    arms = [measurement([100.0] * 3), measurement([100.0] * 3)]
    arms[side] = measurement([100.0] * 3, problem=problem)
    judged = judge_pairs(case(), *arms, Rule())
    assert judged.verdict is verdict
    assert "it was so" in judged.text
    assert judged.throughput.change == pytest.approx(0)
    assert not judged.throughput.is_judged


def test_others_that_disturb_pairs_favour_neither_arm():
    now, before = (measurement([rate] * 10, problem="disturbed") for rate in (92.0, 100.0))
    judged = judge_pairs(case(), now, before, Rule())
    assert judged.verdict is Verdict.REGRESSED


def test_other_conditions_are_named_unless_the_arms_differ_in_them_on_purpose():
    now = measurement([100.0] * 10, conditions=replace(CONDITIONS, threads_per_rank=2))
    before = measurement([100.0] * 10)
    judged = judge_pairs(case(), now, before, Rule())
    assert judged.verdict is Verdict.INCOMPARABLE
    assert "threads_per_rank: 2, was 1" in judged.text
    judged = judge_pairs(case(), now, before, Rule(), varied=["threads_per_rank"])
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
    assert judge_pairs(case(), now, before, Rule()).verdict is Verdict.PASSED
    judged = judge_pairs(case(), with_ranks(now, loss_last=1.9), before, Rule())
    assert judged.verdict is Verdict.ERROR
    assert "fast but wrong" in judged.text
    assert "the other arm's fell by 50.0 %" in judged.text


def test_cpu_seconds_are_gated_on_cpus():
    now, before = (with_ranks(arm, cpu_seconds=10.0) for arm in pairs(0.0))
    judged = judge_pairs(case(), now, before, Rule())
    assert judged.verdict is Verdict.PASSED
    found = judged.metrics["cpu_seconds"]
    assert (found.now, found.before) == (0.2, 0.2)  # two ranks, 100 iterations
    busy = with_ranks(now, cpu_seconds=15.0)
    judged = judge_pairs(case(), busy, before, Rule())
    assert judged.verdict is Verdict.REGRESSED
    assert judged.metrics["cpu_seconds"].change == pytest.approx(0.5)
    assert judged.details[0].startswith(
        "CPU seconds of an iteration grew by 50.0 % (0.2 to 0.3 s;"
    )
    unknown = judge_pairs(case(), with_ranks(now), before, Rule())
    assert "cpu_seconds" not in unknown.metrics


def test_more_cpu_seconds_for_a_faster_training_are_a_trade():
    now, before = pairs(0.3)
    judged = judge_pairs(
        case(), with_ranks(now, cpu_seconds=15.0), with_ranks(before, cpu_seconds=10.0), Rule()
    )
    assert judged.verdict is Verdict.IMPROVED
    assert "CPU seconds of an iteration grew" in judged.text


def test_memory_that_grew_fails():
    now, before = (measurement([100.0] * 10, memory=size << 20) for size in (1500, 1000))
    judged = judge_pairs(case(), now, before, Rule())
    assert judged.verdict is Verdict.REGRESSED
    assert "peak memory grew by 50.0 % (1000 to 1500 MiB; 90 % interval" in judged.text


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
    judged = judge_pairs(case(), *stalled({3: 0.4}), Rule())
    assert judged.verdict is Verdict.PASSED
    assert judged.metrics["whole_window"].verdict is Verdict.PASSED


def test_a_window_that_is_open_is_not_passed_and_says_how_many_pairs_it_takes():
    judged = judge_pairs(case(), *stalled({2: 0.85, 5: 0.8, 7: 0.85}), Rule(), against="v1")
    assert judged.throughput.verdict is Verdict.PASSED
    window = judged.metrics["whole_window"]
    assert window.verdict is Verdict.INCONCLUSIVE
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert judged.details[0].startswith("work over the whole window is ")
    assert "not certainly within the tolerance of 5.0 %, as iterations stall" in judged.text
    assert window.runs_needed is not None
    assert judged.throughput.runs_needed == window.runs_needed > 10
    assert f"--dlperf-max-runs={window.runs_needed}" in judged.text
    assert "the median iteration: unchanged from v1" in judged.text


@pytest.mark.parametrize("slower", [0.055, 0.07])
def test_a_whole_window_that_is_slower_than_the_tolerance_is_not_passed(slower: float):
    """The median iteration is unchanged: stalls of a tenth of the iterations, in every run."""
    tries, passed = 40, 0
    for seed in range(tries):
        noise = random.Random(seed)
        medians = [[100 * math.exp(noise.gauss(0, 0.01)) for _ in range(10)] for _ in range(2)]
        windows = [rate * (1 - slower) for rate in medians[0]]
        now = with_medians(measurement(windows), medians[0])
        before = with_medians(measurement(medians[1]), medians[1])
        passed += judge_pairs(case("1n1g"), now, before, Rule(family=96)).verdict in GOOD
    assert passed <= 0.05 * tries


def test_iterations_that_stall_in_every_run_of_one_arm_fail():
    now, before = pairs(-0.2)
    medians = [100.0 + i / 10 for i in range(10)]
    judged = judge_pairs(case(), with_medians(now, medians), with_medians(before, medians), Rule())
    assert judged.throughput.verdict is Verdict.PASSED
    assert judged.verdict is Verdict.REGRESSED
    assert "some iterations stall" in judged.text


def test_what_is_slower_by_its_median_says_what_the_whole_window_lost():
    now, before = pairs(-0.3)
    medians = [95.0 + i / 10 for i in range(10)], [100.0 + i / 10 for i in range(10)]
    judged = judge_pairs(
        case(), with_medians(now, medians[0]), with_medians(before, medians[1]), Rule()
    )
    assert judged.throughput.verdict is judged.verdict is Verdict.REGRESSED
    assert "% slower than the other arm" in judged.text
    assert "some iterations stall" in judged.text


def test_an_alarm_of_the_throughput_may_spend_more_than_those_of_other_metrics() -> None:
    rule = Rule(family=24)
    parts = family.throughput_rule(rule).alarm_share, family.metric_rule(rule).alarm_share
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
    judged = judge_pairs(case(), now, before, Rule(), against="v1")
    found = judged.throughput
    assert found.change is not None
    assert found.change < -0.01
    assert now.throughput > before.throughput
    assert found.before == 100.0
    assert found.now == pytest.approx(100 * (1 + found.change))
    assert judged.details[0].startswith(
        f"{-100 * found.change:.1f} % slower than v1 (100 to {found.now:.4g} images/s; 90 %"
    )


def test_the_sentence_says_that_rates_are_those_of_the_median_iteration():
    now, before = pairs(-0.1)
    medians = [with_medians(arm, list(arm.throughputs)) for arm in (now, before)]
    judged = judge_pairs(case(), *medians, Rule(), against="v1")
    assert " images/s at the median iteration; 90 % interval" in judged.text


def test_of_a_fixed_number_of_pairs_no_most_is_offered() -> None:
    rng = random.Random(3)
    noise = [rng.gauss(0, 0.05) for _ in range(6)]
    now = measurement([100 * math.exp(one) for one in noise])
    fixed = case(protocol=fixed_runs(6))
    rule = Rule(tolerance=0.01)
    judged = judge_pairs(fixed, now, measurement([100.0] * 6), rule, against="v1")
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert f"--dlperf-runs={judged.throughput.runs_needed}" in judged.text
