"""A verdict must not hang on the rule by which a rate is taken from a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.run import Problem
from pytest_dlperf.core.verdict import Rule, Verdict
from pytest_dlperf.judge import judge
from tests.helpers.judge_builders import CONDITIONS, around, baseline, case, measurement, session

GPU = case("1n2g")
RULE = Rule(tolerance=0.03)
RULES = ("mean_of_rates", "median_step")


def by_rules(rates: list[float], others: list[float]) -> Measurement:
    """Runs by time, and by the other rules; one stretch of their window is slow."""
    now = measurement(rates)
    steps = (0.1,) * 50 + (0.1,) * 60 + (0.2,) * 10 + (0.1,) * 30
    runs = tuple(
        replace(run, step_seconds=steps, estimates=dict.fromkeys(RULES, other))
        for run, other in zip(now.runs, others, strict=True)
    )
    return replace(now, runs=runs, conditions=replace(CONDITIONS, window=(50, 150)))


def stored(rates: list[float], others: list[float]) -> Baseline:
    one = replace(session(rates), estimates=dict.fromkeys(RULES, tuple(others)))
    return baseline(*([one] * 5))


BEFORE = stored(around(100), around(101))


def test_a_verdict_that_hangs_on_the_rule_is_unsteady_and_names_the_stretch():
    judged = judge(GPU, by_rules(around(90), around(101)), BEFORE, RULE)
    assert judged.verdict is Verdict.UNSTEADY
    assert "work over time -10.0 %, regressed" in judged.text
    assert "median step +0.0 %, certified" in judged.text
    assert "iterations 110 to 119 ran at" in judged.text
    assert "took 18% of the time" in judged.text
    assert judged.throughput.change == pytest.approx(-0.10, abs=0.001)
    assert not judged.throughput.is_judged


def test_it_is_unsteady_too_where_time_certifies_and_steps_regressed():
    judged = judge(GPU, by_rules(around(100), around(90)), BEFORE, RULE)
    assert judged.verdict is Verdict.UNSTEADY


def test_rules_that_differ_as_they_did_before_agree():
    before = stored(around(100), around(120))
    assert judge(GPU, by_rules(around(100), around(120)), before, RULE).verdict is Verdict.PASSED
    judged = judge(GPU, by_rules(around(90), around(108)), before, RULE)
    assert judged.verdict is Verdict.REGRESSED


def test_a_difference_below_the_min_effect_is_none():
    before = stored(around(100, 0.0001), around(100, 0.0001))
    rule = replace(RULE, tolerance=0.0300)
    assert judge(GPU, by_rules(around(90), around(90.5)), before, rule).verdict is (
        Verdict.REGRESSED
    )


def test_a_baseline_that_does_not_know_the_rules_is_judged_by_time():
    before = baseline(*([session(around(100))] * 5))
    assert judge(GPU, by_rules(around(90), around(101)), before, RULE).verdict is (
        Verdict.REGRESSED
    )


def test_memory_and_speedup_stay_those_of_the_measurement():
    now = replace(by_rules(around(190), around(192)), parent_throughputs=tuple(around(100)))
    one = session(around(190), parent=around(100))
    before = baseline(replace(one, estimates=dict.fromkeys(RULES, tuple(around(192)))))
    judged = judge(GPU, now, before, replace(RULE, tolerance=0.2))
    assert judged.verdict is Verdict.PASSED
    assert "speedup" in judged.metrics


def with_memory(bytes_now: int) -> tuple[Measurement, Baseline]:
    """Return runs on whose change the rules disagree, and a baseline of 1 GB a device."""
    now = by_rules(around(90), around(101))
    runs = tuple(replace(run, peak_memory_bytes=bytes_now) for run in now.runs)
    one = session(around(100), memory=10**9)
    before = baseline(*([replace(one, estimates=dict.fromkeys(RULES, tuple(around(101))))] * 5))
    return replace(now, runs=runs), before


@pytest.mark.parametrize(
    ("bytes_now", "verdict"), [(10**9, Verdict.UNSTEADY), (2 * 10**9, Verdict.REGRESSED)]
)
def test_memory_that_grew_fails_a_case_whose_rules_disagree(bytes_now: int, verdict: Verdict):
    judged = judge(GPU, *with_memory(bytes_now), RULE)
    assert judged.verdict is verdict
    assert "by different rules disagree" in judged.text
    assert judged.throughput.verdict is Verdict.UNSTEADY
    assert set(judged.metrics) == ({"peak_memory"} if bytes_now > 10**9 else set())


@pytest.mark.parametrize(
    ("code", "bytes_now", "verdict"),
    [
        ("disturbed", 10**9, Verdict.INCOMPARABLE),
        ("disturbed", 2 * 10**9, Verdict.REGRESSED),
        # Of another batch the memory is another
        ("batch-unchecked", 2 * 10**9, Verdict.INCOMPARABLE),
    ],
)
def test_memory_that_grew_fails_a_case_that_others_disturbed(
    code: str, bytes_now: int, verdict: Verdict
):
    now, before = with_memory(bytes_now)
    problem = Problem(code=code, message="the GPU was busy")
    judged = judge(GPU, replace(now, problems=(problem,)), before, RULE)
    assert judged.verdict is verdict
    assert "the GPU was busy" in judged.text
