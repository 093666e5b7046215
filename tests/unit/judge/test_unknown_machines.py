"""What one stored session may say on CPUs, where unchanged sessions minutes apart differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_dlperf.core.verdict import Judgement, Rule, Verdict
from pytest_dlperf.judge import judge
from pytest_dlperf.judge.stats.learn import learn
from pytest_dlperf.judge.stats.priors import THROUGHPUT
from tests.helpers.judge_builders import baseline, case, fixed_runs, measurement, run, session

ALONE = Rule(family=1)
BUILT_IN = THROUGHPUT["cpu"]
#: Live sessions of unchanged training: rates and canaries, stored and now.
FP32 = ([50.6, 51.9], [91.5, 92.0], [43.5, 35.3], [91.9, 82.6])
BF16 = ([13.46, 13.35], [88.8, 91.1], [11.58, 10.37], [78.0, 70.5])


def judged(stored: list[float], now: list[float], layout: str = "1n1c") -> Judgement:
    subject = case(layout, protocol=fixed_runs(len(now)))
    return judge(subject, measurement(now), baseline(session(stored)), ALONE)


@pytest.mark.parametrize("recorded", [FP32, BF16])
def test_unchanged_live_sessions_are_no_regression(recorded) -> None:
    stored, canaries, now, canaries_now = recorded
    before = session(stored, canary={"matmul_gflop_per_s": sum(canaries) / 2})
    runs = tuple(
        run(rate, canary={"matmul_gflop_per_s": canary})
        for rate, canary in zip(now, canaries_now, strict=True)
    )
    measured = replace(measurement([1.0]), runs=runs)
    found = judge(case("1n1c", protocol=fixed_runs(2)), measured, baseline(before), ALONE)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.throughput.provisional
    assert found.throughput.change == pytest.approx(
        -0.231 if recorded is FP32 else -0.181, abs=0.001
    )
    # Within the distance that an alarm must keep, no p value and no number of runs alarms
    assert found.throughput.p_regressed == 1.0
    assert found.throughput.runs_needed is None


def test_a_fall_far_outside_is_found_on_such_a_machine() -> None:
    found = judged([740, 862, 1000], [592, 596, 627])
    assert found.verdict is Verdict.REGRESSED
    assert found.throughput.p_regressed is not None
    assert found.throughput.p_regressed < ALONE.alpha


def test_quiet_runs_and_gpus_keep_their_power() -> None:
    stored, now = [99.5, 100, 100.5], [79.5, 80, 80.5]
    assert judged(stored, now).verdict is Verdict.REGRESSED
    noisy = [90, 100, 110], [72, 80, 88]
    assert judged(*noisy).verdict is not Verdict.REGRESSED
    assert judged(*noisy, layout="1n1g").throughput.sees < judged(*noisy).throughput.sees  # type: ignore[operator]


def test_what_a_machine_class_has_shown_replaces_the_recorded_machine() -> None:
    known = Rule(family=1, prior=replace(BUILT_IN, learnt=True))
    now, before = measurement([78, 80, 82]), baseline(session([90, 100, 110]))
    subject = case("1n1c", protocol=fixed_runs(3))
    assert judge(subject, now, before, known).throughput.sees < (  # type: ignore[operator]
        judge(subject, now, before, ALONE).throughput.sees  # type: ignore[operator]
    )


def test_two_sessions_that_differ_by_fifteen_percent_are_known_from_then_on() -> None:
    learnt = learn([[session([100.0] * 3), session([85.0] * 3)]], BUILT_IN)
    assert learnt is not None
    assert learnt.session_sd > 0.1
    alike = learn([[session([100.0] * 3), session([99.0] * 3)]], BUILT_IN)
    assert alike is not None
    assert alike.session_sd < BUILT_IN.session_sd
    # A third session as far off as that, of a case with one stored session, is no alarm
    rule = replace(ALONE, prior=learnt.prior)
    subject, before = case("1n1c", protocol=fixed_runs(3)), baseline(session([50.0] * 3))
    assert judge(subject, measurement([42.5] * 3), before, rule).verdict is not Verdict.REGRESSED
    assert judge(subject, measurement([25.0] * 3), before, rule).verdict is Verdict.REGRESSED
