"""A run's machine speed is that of its slowest rank, and takes the machine out of a drift."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.core.wire_records import RecordsByKind
from pytest_dlperf.measure.checks import drift
from pytest_dlperf.measure.machine_speed import (
    drift_beyond_machine,
    machine_speed,
    with_shared_drift,
)
from pytest_dlperf.measure.records import RankRecords
from tests.helpers.judge_builders import run as run_at

#: Ten blocks of ten iterations, with a sample at each end.
FIRST = 50
BEGINS = list(range(FIRST, FIRST + 100, 10))


def rank(number: int, seconds: list[float] | None, work: str = "toy 1.0") -> RankRecords:
    record = {"work": work, "repetitions": 4, "seconds": seconds, "first_steps": BEGINS}
    by_kind: dict[str, Any] = {"machine_speed": record} if seconds else {}
    return RankRecords(rank=number, by_kind=cast("RecordsByKind", by_kind), spans=(), canaries=())


def codes(records: list[RankRecords], steps: list[float]) -> list[str]:
    found = drift_beyond_machine(records, steps, FIRST, 100.0, "images", "cpu")
    return [problem.code for problem in found]


def test_the_slowest_rank_is_the_machines_speed():
    found = machine_speed([rank(0, [0.02] * 11), rank(1, [0.02] * 10 + [0.09])])
    assert found == {"toy 1.0": pytest.approx(4 * 11 / 0.29)}


@pytest.mark.parametrize(
    "others", [rank(1, None), rank(1, [0.02] * 11, "toy 1.1")], ids=["none", "another"]
)
def test_ranks_that_did_not_all_do_the_same_work_have_none(others: RankRecords):
    assert machine_speed([rank(0, [0.02] * 11), others]) == {}
    assert codes([rank(0, [0.02] * 11), others], [0.1] * 50 + [0.13] * 50) == ["drift"]


def test_steps_that_drift_as_the_machine_does_are_a_note():
    steps = [0.1] * 50 + [0.13] * 50
    slower = [0.02] * 5 + [0.023] + [0.026] * 5
    assert codes([rank(0, slower)], steps) == ["drift", "machine-drifted"]
    assert codes([rank(0, [0.02] * 11)], steps) == ["drift"]
    assert codes([rank(0, slower[::-1])], steps) == ["drift"]


def test_steps_that_do_not_drift_have_no_problem_on_a_machine_that_does():
    assert codes([rank(0, [0.02] * 5 + [0.026] * 6)], [0.1] * 100) == []


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
