"""What one stored session may say, where unchanged sessions minutes apart differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_dlperf.core.verdict import Judgement, Rule, Verdict
from pytest_dlperf.judge import judge
from tests.helpers.judge_builders import baseline, case, fixed_runs, measurement, run, session

ALONE = Rule(family=1)
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


@pytest.mark.parametrize(("layout", "open_", "red"), [("1n1c", 20, 30), ("1n1g", 12, 20)])
def test_one_session_alarms_beyond_the_distance_of_its_device(
    layout: str, open_: int, red: int
) -> None:
    stored = [99.8, 100, 100.2]
    for slower, verdict in ((open_, Verdict.INCONCLUSIVE), (red, Verdict.REGRESSED)):
        now = [0.01 * (100 - slower) * rate for rate in stored]
        assert judged(stored, now, layout).verdict is verdict


def test_from_five_sessions_on_their_own_spread_counts() -> None:
    stored = [session([level - 0.1, level, level + 0.1]) for level in (100, 100.2, 99.8, 100.1)]
    now, subject = measurement([87.9, 88, 88.1]), case("1n1g", protocol=fixed_runs(3))
    four = judge(subject, now, baseline(*stored), ALONE)
    assert four.verdict is Verdict.INCONCLUSIVE
    five = judge(subject, now, baseline(*stored, session([99.8, 99.9, 100])), ALONE)
    assert five.verdict is Verdict.REGRESSED
