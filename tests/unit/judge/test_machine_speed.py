"""The machine's speed is taken out of rates where that makes them vary less."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.metric import Figure, Gate, StoredFigures
from pytest_dlperf.core.run import MACHINE_DRIFTED, Problem, RankSummary
from pytest_dlperf.core.verdict import Prior, Rule, Verdict
from pytest_dlperf.judge import judge
from pytest_dlperf.judge.machine_speed import at_stored_speed, side_of_runs
from pytest_dlperf.judge.stats.priors import WITHOUT_MACHINE
from tests.helpers.judge_builders import WORK, baseline, case, measurement, session, with_speeds
from tests.helpers.slower_machine import (
    OWN,
    RULE,
    SUBJECT,
    judged,
    measured,
    rates,
    speeds,
    stored,
)

GATES = (Gate(name="phase_seconds", tolerance=0.05), Gate(name="opened", is_count=True))


def test_rates_are_as_they_would_be_at_the_stored_speed():
    now = side_of_runs(measured(90, machine=0.8).runs)
    found = at_stored_speed(now, [stored(100)], WITHOUT_MACHINE)
    assert found is not None
    assert found.change == pytest.approx(-0.2)
    assert found.slope == pytest.approx(1.0, abs=0.1)
    ratio = [now / before for now, before in zip(found.now, found.stored[0], strict=True)]
    assert ratio == pytest.approx([0.9 * 0.8 ** (1 - found.slope)] * 5)
    assert 0.0 < found.noise < 0.5 * math.log(1.25)


def test_a_session_counts_once_for_the_stored_speed():
    """As in what it is compared with, however many runs it has."""
    many = replace(
        session([*rates(100), *rates(100)]), machine_speed={WORK: (*speeds(), *speeds())}
    )
    slow = stored(100, machine=0.8)
    now = side_of_runs(measured(100, machine=math.sqrt(0.8)).runs)
    for level in ([stored(100), slow], [many, slow]):
        found = at_stored_speed(now, level, WITHOUT_MACHINE)
        assert found is not None
        assert found.change == pytest.approx(0.0, abs=1e-9)
        # The slopes of the two stored sessions differ, though now is between them
        assert found.noise == pytest.approx(0.25 * math.log(1.25) / math.sqrt(8))
    alone = at_stored_speed(side_of_runs(measured(100).runs), [many], WITHOUT_MACHINE)
    assert alone is not None
    assert alone.noise == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("slope", [0.7, 1.0, 1.5, 2.0])
def test_the_slope_is_learnt_and_no_further_off_than_its_noise(slope: float):
    """Of 500 sessions of five runs against five stored ones, on a machine 20 % slower."""
    rng = np.random.default_rng(3)
    off = []
    for _ in range(500):
        machine = rng.normal(0, 0.06, 10) - [*[0.0] * 5, *[math.log(1.25)] * 5]
        logs = slope * machine + rng.normal(0, 0.04, 10)
        values = [float(one) for one in 100 * np.exp(logs)]
        some = [float(one) for one in 200 * np.exp(machine)]
        one = replace(session(values[:5]), machine_speed={WORK: tuple(some[:5])})
        now = with_speeds(measurement(values[5:]), some[5:])
        found = at_stored_speed(side_of_runs(now.runs), [one], WITHOUT_MACHINE)
        if found is not None:
            shift = np.log(found.now).mean() - np.log(found.stored[0]).mean()
            off.append(shift / math.hypot(found.noise, 0.04 * math.sqrt(2 / 5)))
    assert len(off) > (300 if slope < 1 else 440)
    # The expected slope draws towards 1.6, by half of its own standard deviation at most
    assert abs(np.mean(off)) < 1.0
    assert np.mean(np.abs(off) > 2.5) < 0.05


def test_an_unchanged_case_on_a_slower_machine_passes_and_says_so():
    found = judged(measured(100, machine=0.88))
    assert found.verdict is Verdict.PASSED, found.reason
    assert found.throughput.change == pytest.approx(0.0, abs=0.01)
    assert found.throughput.machine_change == pytest.approx(-0.12)
    assert found.throughput.machine_slope == pytest.approx(1.0, abs=0.1)
    assert found.throughput.measured_change == pytest.approx(-0.12)
    assert "measured: -12.0 %, on a machine that was 12.0 % slower" in found.reason
    assert "of which 1.0 times as much is taken out" in found.reason


def test_a_slower_case_is_found_on_a_faster_machine():
    found = judged(measured(80, machine=1.25))
    assert found.verdict is Verdict.REGRESSED, found.reason
    assert found.throughput.change == pytest.approx(-0.2, abs=0.01)
    assert found.throughput.measured_change == pytest.approx(0.0, abs=1e-9)


def test_a_canary_that_moved_does_not_forbid_a_verdict_then():
    before = baseline(stored(canary={"matmul_gflop_per_s": 100.0}))
    now = measured(100, machine=0.88)
    runs = tuple(replace(run, canary={"matmul_gflop_per_s": 88.0}) for run in now.runs)
    assert judged(replace(now, runs=runs), before).verdict is Verdict.PASSED
    without = tuple(replace(run, machine_speed={}) for run in runs)
    assert judged(replace(now, runs=without), before).verdict is not Verdict.PASSED


def test_a_set_up_that_slows_the_canary_as_well_is_not_the_machines_doing():
    """As ``torch.set_num_threads(1)`` does in a workload."""
    same = stored(canary={"matmul_gflop_per_s": 100.0})
    for others, expected in (
        ([], Verdict.REGRESSED),
        # A session that was set up as now is knows the machine
        ([replace(same, machine_speed={"toy 1.1": (1.0,) * 5})], Verdict.INCOMPARABLE),
    ):
        now = measured(50, work="toy 1.1")
        runs = tuple(
            replace(run, canary={"matmul_gflop_per_s": 50.0 + 0.01 * number})
            for number, run in enumerate(now.runs)
        )
        found = judged(replace(now, runs=runs), baseline(same, *others))
        assert found.verdict is expected, found.reason
        if not others:
            assert "nor is its canary compared with 1 of 1 stored sessions" in found.reason


def test_what_a_rank_does_in_the_background_is_not_the_machines_doing():
    """No run sampled the speed, as its ranks compute while they wait, which slows the canary."""
    now = measured(50)
    runs = tuple(
        replace(run, machine_speed={}, canary={"copy_gb_per_s": 5.0 + 0.01 * number})
        for number, run in enumerate(now.runs)
    )
    before = baseline(stored(canary={"copy_gb_per_s": 10.0}))
    found = judged(replace(now, runs=runs), before)
    assert found.verdict is Verdict.REGRESSED, found.reason
    assert "runs did not sample it, where 1 of 1 stored sessions did" in found.reason
    one_sampled = (replace(now.runs[0], canary=runs[0].canary), *runs[1:])
    assert judged(replace(now, runs=one_sampled), before).verdict is Verdict.INCOMPARABLE


@pytest.mark.parametrize("work", ["toy 1.1", None])
def test_another_work_or_none_is_not_compared(work: str | None):
    now = measured(100, machine=0.8, work=work or WORK)
    if work is None:
        now = replace(now, runs=tuple(replace(run, machine_speed={}) for run in now.runs))
    found = judged(now)
    assert found.throughput.machine_change is None
    assert found.throughput.change == pytest.approx(-0.2)
    assert found.verdict is not Verdict.PASSED


def test_speeds_that_rates_do_not_follow_are_left_out():
    """Rates that vary by 1.3 %, and fixed work that varies by 10 % beside them."""
    quiet = baseline(
        replace(
            session([100 * own for own in OWN]),
            machine_speed={WORK: tuple(speeds())},
        )
    )
    now = with_speeds(measurement([97 * own for own in OWN]), speeds(0.97))
    found = judged(now, quiet)
    assert found.throughput.machine_change is None
    assert found.throughput.change == pytest.approx(-0.03)


def test_what_sessions_differ_by_counts_for_the_choice():
    """The speed explains the runs of each session, and not why sessions differ."""
    apart = [stored(100, 1.0), stored(150, 1.0), stored(70, 1.0)]
    assert at_stored_speed(None, apart, WITHOUT_MACHINE) is None
    alike = [stored(100, 1.0), stored(100, 1.5)]
    assert at_stored_speed(None, alike, WITHOUT_MACHINE) is not None


def test_too_few_runs_show_nothing():
    few = replace(stored(), runs=(100.0,), machine_speed={WORK: (200.0,)})
    assert at_stored_speed(side_of_runs(measured(100).runs[:3]), [few], WITHOUT_MACHINE) is None


def side_of(level: float) -> tuple[Session, Measurement]:
    """Return runs that vary little, as a session and as a measurement."""
    steady = (1.0, 0.98, 1.02, 0.99, 1.01)
    own = (1.002, 0.998, 1.0, 1.001, 0.999)
    values = [level * s * o for s, o in zip(steady, own, strict=True)]
    some = [2 * level * s for s in steady]
    kept = replace(session(values), machine_speed={WORK: tuple(some)})
    return kept, with_speeds(measurement(values), some)


def with_memory(side: tuple[Session, Measurement], memory: int) -> Measurement:
    runs = tuple(replace(run, peak_memory_bytes=memory) for run in side[1].runs)
    return replace(side[1], runs=runs)


@pytest.mark.parametrize("machine", [1.0, 0.88])
def test_an_anchor_left_by_small_steps_fails_on_a_slower_machine_too(machine: float):
    noise = np.random.default_rng(1)

    def side(level: float, machine: float, count: int) -> tuple[list[float], list[float]]:
        speeds = machine * np.exp(noise.normal(0, 0.04, count))
        rates = level * speeds * np.exp(noise.normal(0, 0.004, count))
        return rates.tolist(), (200 * speeds).tolist()

    def stored_at(level: float) -> Session:
        rates, speeds = side(level, 1.0, 5)
        return replace(session(rates), machine_speed={WORK: tuple(speeds)})

    anchor = stored_at(100)
    level = [replace(stored_at(84), time=f"2026-02-0{day}T00:00:00Z") for day in range(1, 10)]
    known = Prior(run_sd=0.005, session_sd=0.005, run_df=30, session_df=30, learnt=True)
    prior = Prior(
        run_sd=0.03, session_sd=0.02, run_df=30, session_df=30, learnt=True, without_machine=known
    )
    rates, speeds = side(83.5, machine, 10)
    now = with_speeds(measurement(rates), speeds)
    before = baseline(*level, anchor=anchor)
    found = judged(now, before, Rule(family=1, tolerance=0.08, prior=prior))
    assert found.metrics["anchor"].change == pytest.approx(-0.165, abs=0.02)
    assert found.verdict is Verdict.REGRESSED, found.reason
    assert ("only once the machine's speed is taken out" in found.reason) is (machine < 1)


def test_what_is_certainly_slower_as_measured_is_not_passed():
    """A framework that became slower does its fixed work more slowly too."""
    rule = replace(RULE, tolerance=0.25)
    found = judged(side_of(80)[1], baseline(side_of(100)[0]), rule)
    assert found.verdict is Verdict.INCOMPARABLE, found.reason
    assert "as measured the case is 20.0 % slower, for certain" in found.reason
    assert "--dlperf-against" in found.reason
    assert not found.throughput.is_judged
    # Shown is what was measured
    assert found.throughput.change == pytest.approx(-0.2)
    assert found.throughput.now == pytest.approx(0.8 * (found.throughput.before or 0.0))
    low, high = found.throughput.interval or (0.0, 0.0)
    assert low < -0.2 < high < 0


def test_what_a_given_tolerance_has_room_for_as_measured_too_is_passed():
    """Nothing is hidden then: the case would pass with the machine's speed left in."""
    level = baseline(*[side_of(100)[0]] * 9)
    for now, tolerance, expected in (
        (88, 0.25, Verdict.PASSED),
        (80, 0.22, Verdict.INCOMPARABLE),
    ):
        found = judged(side_of(now)[1], level, replace(RULE, tolerance=tolerance))
        assert found.verdict is expected, found.reason


def test_what_is_refused_so_fails_for_memory_that_grew_all_the_same():
    now = with_memory(side_of(80), 150)
    before = replace(side_of(100)[0], peak_memory_bytes=(100.0,) * 5)
    found = judged(now, baseline(before), replace(RULE, tolerance=0.25))
    assert found.verdict is Verdict.REGRESSED
    assert "peak memory" in found.reason
    assert "for certain" in found.reason


def test_nothing_is_improved_that_was_measured_to_be_slower():
    now = with_speeds(measurement(rates(130, machine=0.7)), speeds(0.7))
    found = judged(now)
    assert found.throughput.measured_change == pytest.approx(-0.09)
    assert found.throughput.change is not None
    assert found.throughput.change > 0.2
    assert found.verdict is not Verdict.IMPROVED


def test_an_anchor_without_speeds_is_not_judged_on_a_machine_that_moved():
    """It is of an older version: the rates of then are 14 % higher, and so was the machine."""
    canary = {"matmul_gflop_per_s": 100.0}
    old = replace(stored(100, canary=canary), machine_speed={})
    level = [stored(100, machine=0.88, canary={"matmul_gflop_per_s": 88.0})] * 2
    now = measured(100, machine=0.88)
    runs = tuple(replace(run, canary={"matmul_gflop_per_s": 88.0}) for run in now.runs)
    now = replace(now, runs=runs)
    unmoved = judged(now, baseline(*level, anchor=old))
    assert "anchor" in unmoved.metrics  # nothing shows that the machine moved since the level
    level = [stored(100, canary=canary)] * 2
    found = judged(now, baseline(*level, anchor=replace(old, time="2025-01-01T00:00:00Z")))
    assert found.verdict is Verdict.PASSED, found.reason
    assert "anchor" not in found.metrics


def test_gated_speeds_are_not_judged_on_a_machine_that_moved():
    gate = case("1n1c", metrics=GATES)
    canary = {"matmul_gflop_per_s": 100.0}
    figures = {
        "phase_seconds": StoredFigures(runs=(1.0,) * 5, unit="s", better="lower"),
        "opened": StoredFigures(runs=(3.0,) * 5, unit="", better="lower"),
    }
    before = baseline(replace(stored(100, canary=canary), metrics=figures))

    def now(opened: float) -> Measurement:
        found = measured(100, machine=0.88)
        metrics = {
            "phase_seconds": Figure(value=1.4, unit="s", better="lower"),
            "opened": Figure(value=opened, unit="", better="lower"),
        }
        slower = {"matmul_gflop_per_s": 88.0}
        runs = tuple(replace(run, canary=slower, metrics=metrics) for run in found.runs)
        return replace(found, runs=runs)

    found = judge(gate, now(3.0), before, RULE)
    assert found.verdict is Verdict.PASSED, found.reason
    assert "gated metrics that are speeds are not judged, as the machine is 12.0 % slower" in (
        found.reason
    )
    assert judge(gate, now(4.0), before, RULE).verdict is Verdict.REGRESSED


def test_a_speedup_is_not_judged_on_a_machine_that_moved():
    before = replace(
        stored(100, canary={"matmul_gflop_per_s": 100.0}),
        parent_runs=(60.0,) * 5,
        speedup=100 / 60,
    )
    now = measured(100, machine=0.88)
    runs = tuple(replace(run, canary={"matmul_gflop_per_s": 88.0}) for run in now.runs)
    now = replace(now, runs=runs, parent_throughputs=(52.8,) * 5)
    found = judge(case("1n2c"), now, baseline(before), RULE)
    assert found.verdict is Verdict.PASSED, found.reason
    words = (
        "; its speedup is not judged, as the machine is 12.0 % slower (canary matmul_gflop_per_s)"
    )
    assert found.reason.endswith(words)
    # What was taken out does explain it
    assert "does not explain" not in found.reason


def test_drift_with_the_machine_does_not_make_a_case_unsteady():
    def drifting(codes: list[str]) -> Measurement:
        found = measured(100, machine=0.88)
        problems = tuple(Problem(code=code, message="it was so") for code in codes)
        runs = tuple(replace(run, problems=problems) for run in found.runs)
        return replace(found, runs=runs, problems=problems)

    assert judged(drifting(["drift", MACHINE_DRIFTED])).verdict is Verdict.PASSED
    assert judged(drifting(["drift"])).verdict is Verdict.UNSTEADY
    other = baseline(stored(work="toy 0.9"))
    raw = judged(drifting(["drift", MACHINE_DRIFTED]), other)
    assert raw.verdict is Verdict.UNSTEADY
    first = judge(SUBJECT, drifting(["drift", MACHINE_DRIFTED]), None, RULE)
    assert first.verdict is Verdict.NO_BASELINE


def test_the_speed_of_other_nodes_is_not_the_machines():
    """Three sessions of this node are compared, so the faster node's say nothing of a change."""
    here = [stored(100, 1.0, node="a") for _ in range(3)]
    there = [stored(200, 2.0, node="b") for _ in range(3)]
    now = measured(100, machine=0.8)
    rank = RankSummary(
        rank=0, node="a", seconds=1.0, cpu_seconds=None, peak_memory_bytes=None,
        loss_first=None, loss_last=None,
    )  # fmt: skip
    now = replace(now, runs=tuple(replace(run, ranks=(rank,)) for run in now.runs))
    found = judged(now, baseline(*here, *there))
    assert found.throughput.machine_change == pytest.approx(-0.2)
    # Nor is the slope that of two nodes, whose rates and speeds may differ in any way
    apart = [stored(100, 1.0, node="a"), stored(100, 3.0, node="b")]
    fit = at_stored_speed(None, apart, WITHOUT_MACHINE)
    assert fit is not None
    assert fit.slope == pytest.approx(1.0, abs=0.2)


def test_the_anchor_is_compared_at_the_machines_speed_too():
    first, later = stored(100), stored(100, machine=0.8)
    before = baseline(later, later, anchor=first)
    found = judged(measured(100, machine=0.8), before)
    assert found.metrics["anchor"].change == pytest.approx(0.0, abs=0.01)
    assert found.metrics["anchor"].machine_change == pytest.approx(-0.2)


def test_a_stored_session_without_the_speed_is_named_where_the_case_did_not_pass():
    before = baseline(stored(), replace(stored(), machine_speed={}))
    slower = judged(measured(60), before)
    assert slower.verdict is not Verdict.PASSED
    assert "not taken out, as 1 of 2 stored sessions do not have it" in slower.reason
    other = judged(measured(60, work="toy 2.0")).reason
    assert "nor is its canary compared with 1 of 1 stored sessions, which had another" in other
    assert "not taken out" not in judged(measured(60)).reason
    quiet = measurement([100.0] * 5)
    at_once = with_speeds(quiet, [200.0] * 5)
    steady = baseline(session([100.0] * 5))
    assert "not taken out" not in judged(at_once, steady).reason, "it passed"
    assert "not taken out" not in judged(measurement([60.0] * 5), steady).reason, "now has none"
