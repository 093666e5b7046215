"""The machine's speed is taken out of rates where that makes them vary less."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from pytest_dlperf.core.baseline import Baseline, Session
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.verdict import Judgement, Rule, Verdict
from pytest_dlperf.flow.learn_noise import of_levels
from pytest_dlperf.judge import judge
from pytest_dlperf.judge.later import later_session
from pytest_dlperf.judge.machine_speed import at_stored_speed
from pytest_dlperf.judge.stats.priors import WITHOUT_MACHINE
from tests.helpers.judge_builders import baseline, case, measurement, session

SUBJECT = case("1n1c")
RULE = Rule(family=2)
WORK = "toy 1.0"
#: What the machine does to the runs of a session, and what is left of it in a rate.
MACHINE = (1.0, 0.85, 1.12, 0.9, 1.05)
OWN = (1.01, 0.99, 1.0, 1.015, 0.985)


def rates(level: float, machine: float = 1.0) -> list[float]:
    return [level * machine * m * own for m, own in zip(MACHINE, OWN, strict=True)]


def speeds(machine: float = 1.0) -> list[float]:
    return [200 * machine * m for m in MACHINE]


def stored(
    level: float = 100.0, machine: float = 1.0, work: str = WORK, **fields: object
) -> Session:
    found = session(rates(level, machine))
    known = {work: tuple(speeds(machine))}
    return replace(found, machine_speed=known, **fields)  # type: ignore[arg-type]


def measured(level: float, machine: float = 1.0, work: str = WORK) -> Measurement:
    return with_speeds(measurement(rates(level, machine)), speeds(machine), work)


def with_speeds(found: Measurement, values: list[float], work: str = WORK) -> Measurement:
    runs = [
        replace(run, machine_speed={work: value})
        for run, value in zip(found.runs, values, strict=True)
    ]
    return replace(found, runs=tuple(runs))


def judged(now: Measurement, before: Baseline | None = None, rule: Rule = RULE) -> Judgement:
    return judge(SUBJECT, now, before or baseline(stored()), rule)


def test_rates_are_as_they_would_be_at_the_stored_speed():
    found = at_stored_speed(measured(90, machine=0.8).runs, [stored(100)], WITHOUT_MACHINE)
    assert found is not None
    assert found.change == pytest.approx(-0.2)
    assert found.slope == pytest.approx(1.0, abs=0.1)
    ratio = [now / before for now, before in zip(found.now, found.stored[0], strict=True)]
    assert ratio == pytest.approx([0.9 * 0.8 ** (1 - found.slope)] * 5)
    assert 0.0 < found.noise < 0.5 * math.log(1.25)


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
        found = at_stored_speed(now.runs, [one], WITHOUT_MACHINE)
        if found is not None:
            shift = np.log(found.now).mean() - np.log(found.stored[0]).mean()
            off.append(shift / math.hypot(found.noise, 0.04 * math.sqrt(2 / 5)))
    assert len(off) > (300 if slope < 1 else 450)
    print(slope, len(off), np.mean(off), np.std(off), np.mean(np.abs(off) > 2.5))
    # The expected slope draws towards 1.5, by half of its own standard deviation at most
    assert abs(np.mean(off)) < 0.8
    assert np.mean(np.abs(off) > 2.5) < 0.05


def test_an_unchanged_case_on_a_slower_machine_passes_and_says_so():
    found = judged(measured(100, machine=0.8))
    assert found.verdict is Verdict.PASSED, found.reason
    assert found.throughput.change == pytest.approx(0.0, abs=0.01)
    assert found.throughput.machine_change == pytest.approx(-0.2)
    assert found.throughput.machine_slope == pytest.approx(1.0, abs=0.1)
    assert found.throughput.measured_change == pytest.approx(-0.2)
    assert "the machine was 20.0 % slower by fixed work between the steps" in found.reason
    assert "as measured -20.0 %" in found.reason


def test_a_slower_case_is_found_on_a_faster_machine():
    found = judged(measured(80, machine=1.25))
    assert found.verdict is Verdict.REGRESSED, found.reason
    assert found.throughput.change == pytest.approx(-0.2, abs=0.01)
    assert found.throughput.measured_change == pytest.approx(0.0, abs=1e-9)


def test_a_canary_that_moved_does_not_forbid_a_verdict_then():
    before = baseline(stored(canary={"matmul_gflop_per_s": 100.0}))
    now = measured(100, machine=0.8)
    runs = tuple(replace(run, canary={"matmul_gflop_per_s": 80.0}) for run in now.runs)
    assert judged(replace(now, runs=runs), before).verdict is Verdict.PASSED
    without = tuple(replace(run, machine_speed={}) for run in runs)
    assert judged(replace(now, runs=without), before).verdict is not Verdict.PASSED


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
    assert at_stored_speed((), apart, WITHOUT_MACHINE) is None
    alike = [stored(100, 1.0), stored(100, 1.5)]
    assert at_stored_speed((), alike, WITHOUT_MACHINE) is not None


def test_too_few_runs_show_nothing():
    few = replace(stored(), runs=(100.0,), machine_speed={WORK: (200.0,)})
    assert at_stored_speed(measured(100).runs[:3], [few], WITHOUT_MACHINE) is None


def test_what_is_certainly_slower_as_measured_is_not_passed():
    """A framework that became slower does its fixed work more slowly too."""
    steady = (1.0, 0.98, 1.02, 0.99, 1.01)
    own = (1.002, 0.998, 1.0, 1.001, 0.999)

    def side(level: float) -> tuple[list[float], list[float]]:
        values = [level * s * o for s, o in zip(steady, own, strict=True)]
        return values, [2 * level * s for s in steady]

    before, speed_before = side(100)
    now, speed_now = side(80)
    stored_side = replace(session(before), machine_speed={WORK: tuple(speed_before)})
    rule = replace(RULE, tolerance=0.25)
    found = judged(with_speeds(measurement(now), speed_now), baseline(stored_side), rule)
    assert found.verdict is Verdict.INCOMPARABLE, found.reason
    assert "as measured the case is 20.0 % slower, for certain" in found.reason
    assert "--dlperf-against" in found.reason
    assert not found.throughput.is_judged


def test_the_anchor_is_compared_at_the_machines_speed_too():
    first, later = stored(100), stored(100, machine=0.8)
    before = baseline(later, later, anchor=first)
    found = judged(measured(100, machine=0.8), before)
    assert found.metrics["anchor"].change == pytest.approx(0.0, abs=0.01)
    assert found.metrics["anchor"].machine_change == pytest.approx(-0.2)


def test_noise_is_learnt_of_rates_without_the_machine():
    levels = [[stored(100, machine) for machine in (1.0, 0.8, 1.1)] for _ in range(4)]
    noise = of_levels(levels, "cpu")
    assert noise is not None
    assert noise.without_machine is not None
    assert noise.session_sd > 0.08
    assert noise.without_machine.session_sd < 0.03
    assert noise.without_machine.run_sd < noise.run_sd / 2
    prior = noise.prior.without_machine
    assert prior is not None
    assert prior.learnt
    plain = [[replace(one, machine_speed={}) for one in level] for level in levels]
    without = of_levels(plain, "cpu")
    assert without is not None
    assert without.without_machine is None


def test_what_a_later_session_detects_is_without_the_machine():
    known = later_session(SUBJECT, baseline(stored()), RULE, kept_sessions=10)
    plain = baseline(replace(stored(), machine_speed={}))
    unknown = later_session(SUBJECT, plain, RULE, kept_sessions=10)
    assert known is not None
    assert unknown is not None
    assert known.sees < unknown.sees


#: Standard deviations of the live recordings on a two-core virtual machine, and how many times as
#: much rates follow the speed of the fixed work.
LIVE = {"machine": 0.065, "session": 0.06, "own": 0.05, "slope": 1.7}


def drawn(
    rng: np.random.Generator, sds: Mapping[str, float], *, slower: float = 0.0, runs: int = 5
) -> tuple[list[float], list[float]]:
    machine = rng.normal(0, sds["session"]) + rng.normal(0, sds["machine"], runs)
    logs = sds["slope"] * machine + rng.normal(0, sds["own"], runs)
    return list(100 * (1 - slower) * np.exp(logs)), list(200 * np.exp(machine))


def share_regressed(slower: float, count: int, sds: Mapping[str, float] = LIVE) -> float:
    """Return the share of cases that are regressed against one stored session."""
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(count):
        before, speed_before = drawn(rng, sds)
        now, speed_now = drawn(rng, sds, slower=slower, runs=10)
        one = replace(session(before), machine_speed={WORK: tuple(speed_before)})
        at_end = judged(with_speeds(measurement(now), speed_now), baseline(one))
        found += at_end.verdict is Verdict.REGRESSED
    return found / count


def test_one_stored_session_finds_what_is_planted_and_raises_no_alarm():
    """Of simulated cases with the noise of the recordings, at the last look."""
    assert share_regressed(0.0, 400) <= 0.02
    assert share_regressed(0.2, 200) >= 0.8
    assert share_regressed(1 - 1 / 1.4, 200) >= 0.97


@pytest.mark.parametrize("slope", [0.0, 0.6, 2.4])
def test_a_training_that_follows_the_machine_otherwise_raises_no_alarm(slope: float):
    assert share_regressed(0.0, 300, {**LIVE, "slope": slope}) <= 0.03
