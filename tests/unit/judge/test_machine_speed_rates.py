"""How often verdicts without the machine's speed are wrong: simulated, one stored session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from pytest_dlperf.core.verdict import Rule, Verdict
from pytest_dlperf.judge import judge
from tests.helpers.judge_builders import WORK, baseline, case, measurement, session, with_speeds

SUBJECT = case("1n1c")
RULE = Rule(family=2)
#: Standard deviations of the live recordings on a two-core virtual machine, and how many times as
#: much rates follow the speed of the fixed work.
LIVE = {"machine": 0.065, "session": 0.06, "own": 0.05, "slope": 1.7}


def drawn(
    rng: np.random.Generator,
    sds: Mapping[str, float],
    *,
    slower: float = 0.0,
    runs: int = 5,
    away: float = 0.0,
) -> tuple[list[float], list[float]]:
    machine = away + rng.normal(0, sds["session"]) + rng.normal(0, sds["machine"], runs)
    slope = rng.normal(sds["slope"], sds.get("slopes", 0.0))
    logs = slope * machine + rng.normal(0, sds["own"], runs)
    return list(100 * (1 - slower) * np.exp(logs)), list(200 * np.exp(machine))


def share_regressed(slower: float, count: int, sds: Mapping[str, float] = LIVE) -> float:
    """Return the share of cases that are regressed against one stored session."""
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(count):
        before, speed_before = drawn(rng, sds)
        now, speed_now = drawn(rng, sds, slower=slower, runs=10, away=sds.get("away", 0.0))
        one = replace(session(before), machine_speed={WORK: tuple(speed_before)})
        at_end = judge(SUBJECT, with_speeds(measurement(now), speed_now), baseline(one), RULE)
        found += at_end.verdict is Verdict.REGRESSED
    return found / count


def test_one_stored_session_finds_what_is_planted_and_raises_no_alarm():
    """Of simulated cases with the noise of the recordings, at the last look."""
    assert share_regressed(0.0, 400) <= 0.02
    assert share_regressed(0.2, 200) >= 0.8
    assert share_regressed(1 - 1 / 1.4, 200) >= 0.97


@pytest.mark.parametrize("away", [-0.4, 0.4])
def test_a_machine_that_is_another_one_today_raises_no_alarm(away: float):
    """By 40 % in logs, where an error of the slope counts most."""
    assert share_regressed(0.0, 300, {**LIVE, "away": away}) <= 0.02


@pytest.mark.parametrize("slope", [0.0, 0.6, 2.4])
def test_a_training_that_follows_the_machine_otherwise_raises_no_alarm(slope: float):
    assert share_regressed(0.0, 300, {**LIVE, "slope": slope}) <= 0.03


@pytest.mark.parametrize("away", [-0.15, 0.15])
def test_neighbours_that_slow_a_training_more_than_the_fixed_work_raise_no_alarm(away: float):
    """The slope of a session is another one than that of the stored one."""
    assert share_regressed(0.0, 300, {**LIVE, "slopes": 0.4, "away": away}) <= 0.02
