"""Arms that drift alike, in turns, met the same machine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.measure.checks import drift
from pytest_dlperf.measure.shared_drift import with_shared_drift
from tests.helpers.judge_builders import run as run_at

#: Ten turns of ten iterations.
FIRST = 50
BEGINS = list(range(FIRST, FIRST + 100, 10))


def in_turns(steps: list[float]) -> RunSummary:
    """A run of ten turns of ten steps, after a warm-up; its drift is as the run alone shows it."""
    measured = replace(run_at(100.0), step_seconds=(0.1,) * FIRST + tuple(steps))
    return replace(
        measured,
        turns=tuple(BEGINS),
        problems=tuple(drift(steps, FIRST, 100.0, "images", "cpu")),
    )


def test_an_arm_that_drifts_as_the_other_does_drifts_with_the_machine():
    slower = in_turns([0.1] * 50 + [0.13] * 50)
    follows = in_turns([0.2] * 50 + [0.2 * 1.25] * 50)  # of another level
    steady = in_turns([0.1] * 100)
    faster = in_turns([0.13] * 50 + [0.1] * 50)
    for other, expected in (
        (follows, ["drift", "machine-drifted"]),
        (steady, ["drift"]),
        (faster, ["drift"]),
    ):
        found = with_shared_drift(slower, other, "cpu")
        assert [problem.code for problem in found.problems] == expected
    assert with_shared_drift(steady, slower, "cpu") == steady
    apart = replace(follows, turns=())
    assert with_shared_drift(slower, apart, "cpu") == slower


@pytest.mark.parametrize(("mine", "theirs"), [(1.4, 1.2), (1.12, 1.03)])
def test_a_leak_on_a_machine_that_drifts_is_the_arms_own(mine: float, theirs: float):
    """By the ratio of both; or as the other arm drifted by less than half as much."""
    now = in_turns([0.1] * 50 + [0.1 * mine] * 50)
    before = in_turns([0.1] * 50 + [0.1 * theirs] * 50)
    found = with_shared_drift(now, before, "cpu")
    assert [problem.code for problem in found.problems] == ["drift"]


def test_noise_of_the_other_arm_does_not_hide_a_drift():
    """200 runs whose own steps become 20 % slower, beside an arm whose turns vary by 10 %."""
    rng = np.random.default_rng(7)
    noted = 0
    for _ in range(200):
        noise = np.repeat(np.exp(rng.normal(0, 0.1, 10)), 10)
        other = in_turns([float(one) for one in 0.1 * noise])
        drifting = in_turns([0.1] * 50 + [0.12] * 50)
        codes_of = [p.code for p in with_shared_drift(drifting, other, "cpu").problems]
        assert codes_of[0] == "drift"
        noted += "machine-drifted" in codes_of
    assert noted <= 20
