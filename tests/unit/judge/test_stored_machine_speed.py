"""What is learnt from stored sessions, and checked in them, is without the machine's speed."""

from __future__ import annotations

from dataclasses import replace

from pytest_dlperf.core.baseline import OBSERVED_REGRESSED
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.flow.learn_noise import of_levels
from pytest_dlperf.judge.later import later_session
from pytest_dlperf.judge.stats.leave_one_out import (
    against_level,
    can_be_certified,
    gated_metrics,
    leave_one_out,
    of_level,
)
from tests.helpers.judge_builders import baseline
from tests.helpers.slower_machine import RULE, SUBJECT, stored


def test_noise_is_learnt_of_rates_without_the_machine():
    slow = stored(50, reason=OBSERVED_REGRESSED)
    levels = [[slow, *(stored(100, machine) for machine in (1.0, 0.8, 1.1))] for _ in range(4)]
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


def test_stored_sessions_are_checked_without_the_machines_speed():
    """Level sessions on a machine that was 0 to 12 % slower, and one that was truly slower."""
    away = [1.0, 0.95, 0.88, 0.93, 0.9, 1.0]
    level = [stored(100, machine=one) for one in away]
    gated = gated_metrics("cpu", RULE)
    found = leave_one_out(level, gated, RULE)
    assert [one["throughput"].verdict for one in found] == [Verdict.PASSED] * len(level)
    as_measured = [replace(one, machine_speed={}) for one in level]
    for one, raw in zip(found, leave_one_out(as_measured, gated, RULE), strict=True):
        assert (one["throughput"].sees or 1.0) < 0.6 * (raw["throughput"].sees or 0.0)
    slower = stored(60, machine=0.8)
    assert against_level(slower, level, gated, RULE)["throughput"].verdict is Verdict.REGRESSED
    values = of_level(level, gated[0], RULE)
    assert values is not None
    assert can_be_certified(values, gated[0], RULE)
