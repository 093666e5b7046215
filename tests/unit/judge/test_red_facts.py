"""What no machine and no noise explains is regressed; what either may explain is not judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.verdict import Rule, Verdict
from pytest_dlperf.judge import judge
from pytest_dlperf.judge.evidence.logs import LogRun, LogSide
from pytest_dlperf.judge.verdict import judge_logs, judge_pairs
from tests.helpers.judge_builders import (
    CONDITIONS,
    around,
    baseline,
    case,
    fixed_runs,
    measurement,
    run,
    session,
)

CPU = case("1n1c", protocol=fixed_runs(3))
GPU = case("1n2g")
ALONE = Rule(family=1)
ESTIMATORS = ("mean_of_rates", "median_step")
#: Three stored runs that vary much.
SCATTERED = [740.0, 862.0, 1000.0]


def steps(measured: Measurement, first_s: float, second_s: float) -> Measurement:
    """The measurement with iterations of these seconds in the halves of its window."""
    seconds = (first_s,) * 100 + (second_s,) * 50
    runs = tuple(replace(one, step_seconds=seconds) for one in measured.runs)
    return replace(measured, runs=runs, conditions=replace(CONDITIONS, window=(50, 150)))


def by_rules(measured: Measurement, factor: float) -> Measurement:
    runs = tuple(
        replace(one, estimates=dict.fromkeys(ESTIMATORS, factor * one.throughput))
        for one in measured.runs
    )
    return replace(measured, runs=runs)


def with_rules(*rates: list[float]) -> Baseline:
    return baseline(
        *(replace(session(r), estimates=dict.fromkeys(ESTIMATORS, tuple(r))) for r in rates)
    )


def test_forty_percent_longer_steps_are_regressed_however_much_stored_runs_vary() -> None:
    """The session of issue: 862 images/s, then 592, 596 and 627."""
    judged = judge(CPU, measurement([592.0, 596.0, 627.0]), baseline(session(SCATTERED)), ALONE)
    assert judged.verdict is Verdict.REGRESSED
    assert judged.throughput.change == pytest.approx(596 / 862 - 1)


def test_what_such_noise_may_explain_stays_open() -> None:
    judged = judge(CPU, measurement([760.0, 770.0, 790.0]), baseline(session(SCATTERED)), ALONE)
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert judged.throughput.change == pytest.approx(770 / 862 - 1)
    assert judged.throughput.interval is not None
    low, high = judged.throughput.interval
    assert low < -0.2 < 0 < high


@pytest.mark.parametrize("problem", ["drift", "implausible-speedup"])
@pytest.mark.parametrize("level", [60, 100, 130])
def test_what_was_not_in_one_steady_state_is_left_to_pairs(problem: str, level: float) -> None:
    before = baseline(*[session(around(100))] * 5)
    judged = judge(GPU, measurement(around(level), problem=problem), before, ALONE)
    assert judged.verdict is Verdict.UNSTEADY
    assert "it was so" in judged.text
    assert judged.throughput.change == pytest.approx(level / 100 - 1, abs=0.01)


def test_a_machine_excuses_what_it_may_explain_whatever_the_tolerance() -> None:
    """A fall that a moved canary may be all of is excused; one far beyond it is red."""
    canary = {"matmul_gflop_per_s": 50.0}
    slower = {"matmul_gflop_per_s": 43.0}
    before = baseline(session(SCATTERED, canary=canary))
    for rate, verdict in ((640.0, Verdict.INCOMPARABLE), (300.0, Verdict.REGRESSED)):
        judged = judge(CPU, measurement(around(rate, 0.01, 3), canary=slower), before, ALONE)
        assert judged.verdict is verdict
        assert judged.throughput.change == pytest.approx(rate / 862 - 1)


def canaries(rates: list[float], matmuls: list[float]) -> Measurement:
    runs = tuple(
        run(rate, canary={"matmul_gflop_per_s": matmul})
        for rate, matmul in zip(rates, matmuls, strict=True)
    )
    return replace(measurement([1.0]), runs=runs)


def test_a_canary_too_noisy_to_refuse_is_evidence_against_an_alarm() -> None:
    """The session of issue: both fell by 18 %, the canary with a standard error of 7 %."""
    two = case("1n2c", protocol=fixed_runs(2))
    before = baseline(session([13.46, 13.35], canary={"matmul_gflop_per_s": 89.95}))
    now = canaries([11.58, 10.37], [78.0, 70.5])
    judged = judge(two, now, before, ALONE)
    assert judged.verdict is not Verdict.REGRESSED
    assert judged.throughput.change == pytest.approx(-0.181, abs=0.001)
    # A fall far beyond the canary's alarms.
    gross = canaries([5.1, 5.0], [78.0, 76.0])
    assert judge(two, gross, before, ALONE).verdict is Verdict.REGRESSED


def test_pairs_that_drift_are_regressed_where_every_part_of_them_is_slower() -> None:
    before = by_rules(measurement(around(100, 0.002, 10)), 1.0)
    drifting = steps(measurement(around(60, 0.002, 10), problem="drift"), 0.08, 0.12)
    assert judge_pairs(GPU, by_rules(drifting, 1.0), before, ALONE).verdict is (Verdict.REGRESSED)
    recovers = steps(measurement(around(60, 0.002, 10), problem="drift"), 0.05, 0.15)
    judged = judge_pairs(GPU, by_rules(recovers, 1.0), before, ALONE)
    assert judged.verdict is Verdict.UNSTEADY
    assert judged.throughput.change == pytest.approx(-0.4, abs=0.01)
    assert judged.throughput.interval is not None


def log(*changes: float) -> LogSide:
    """A log whose estimators say that much of 100 a second."""
    names = ("mean_of_rates", "median_of_rates", "time_weighted")
    rates = [100 * (1 + change) for change in changes]
    one = LogRun(throughput=rates[-1], estimates=dict(zip(names, rates, strict=True)))
    return LogSide(name="log", unit="images", sessions=((rates[-1],),), runs=(one,))


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ((-0.18, -0.25, -0.25), Verdict.REGRESSED),  # on both sides of the tolerance
        ((0.0, -0.25, -0.25), Verdict.UNSTEADY),
    ],
)
def test_logs_whose_rates_are_all_certainly_slower_agree(
    changes: tuple[float, ...], verdict: Verdict
) -> None:
    judged = judge_logs(log(0, 0, 0), log(*changes), Rule(tolerance=0.2))
    assert judged.verdict is verdict
    assert judged.throughput.change == pytest.approx(-0.25)
    is_refused = verdict is Verdict.UNSTEADY
    assert judged.throughput.refused is is_refused
    assert (judged.throughput.sees is None) is is_refused
