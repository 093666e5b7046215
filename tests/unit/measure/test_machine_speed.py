"""A run's machine speed is that of its slowest rank, and takes the machine out of a drift."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.core.wire_records import RecordsByKind
from pytest_dlperf.measure.checks import drift
from pytest_dlperf.measure.machine_speed import (
    drift_beyond_machine,
    machine_speed,
    with_drift_of_both,
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
    # Of another level
    follows = in_turns([0.2] * 50 + [0.2 * 1.25] * 50)
    steady = in_turns([0.1] * 100)
    for other, expected in ((follows, ["drift", "machine-drifted"]), (steady, ["drift"])):
        found = with_drift_of_both(slower, other, "images", "cpu")
        assert [problem.code for problem in found.problems] == expected
    assert with_drift_of_both(steady, slower, "images", "cpu") == steady
    apart = replace(follows, turns=())
    assert with_drift_of_both(slower, apart, "images", "cpu") == slower
