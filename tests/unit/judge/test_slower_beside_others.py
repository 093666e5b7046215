"""A slowdown is red where neither programs beside it nor the machine's speed explain it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.run import Problem
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.judge import judge
from tests.helpers.judge_builders import baseline
from tests.helpers.slower_machine import RULE, SUBJECT, judged, measured, stored

BUSY = Problem(code="disturbed", message="others used 0.7 CPU s")


def disturbed(found: Measurement, *, alone: bool = True) -> Measurement:
    """The measurement as one whose runs were all disturbed by others' use of the CPUs."""
    runs = tuple(
        replace(one, disturbed=BUSY.message, others_cpu_alone=alone) for one in found.runs
    )
    return replace(found, runs=runs, problems=(BUSY,))


@pytest.mark.parametrize(
    ("level", "machine", "verdict"),
    [
        (100.0, 1.0, Verdict.INCOMPARABLE),
        (60.0, 1.0, Verdict.REGRESSED),
        (50.0, 1.05, Verdict.REGRESSED),
        (95.0, 1.0, Verdict.INCOMPARABLE),
        # The machine's speed explains it
        (100.0, 0.6, Verdict.INCOMPARABLE),
        # It is certain only once the machine's speed is taken out
        (65.0, 1.5, Verdict.INCOMPARABLE),
    ],
)
def test_others_excuse_what_the_machines_speed_explains(
    level: float, machine: float, verdict: Verdict
) -> None:
    found = judged(disturbed(measured(level, machine)))
    assert found.verdict is verdict
    assert BUSY.message in found.reason
    assert found.throughput.change is not None
    if verdict is Verdict.REGRESSED:
        assert "so that other programs do not explain it" in found.reason
        assert found.throughput.is_judged


def test_what_else_disturbed_a_run_has_no_bound() -> None:
    found = judged(disturbed(measured(60.0), alone=False))
    assert found.verdict is Verdict.INCOMPARABLE


def test_without_fixed_work_in_the_window_nothing_bounds_what_others_do() -> None:
    now = disturbed(measured(60.0))
    runs = tuple(replace(one, machine_speed={}) for one in now.runs)
    found = judge(SUBJECT, replace(now, runs=runs), baseline(stored()), RULE)
    assert found.verdict is Verdict.INCOMPARABLE


def test_too_few_runs_do_not_fail_a_case() -> None:
    now = disturbed(measured(60.0))
    found = judged(replace(now, runs=now.runs[:3]))
    assert found.verdict is Verdict.INCOMPARABLE


def test_runs_that_were_repeated_count_too() -> None:
    now = disturbed(measured(60.0))
    quiet = tuple(replace(one, disturbed="", others_cpu_alone=False) for one in now.runs[:2])
    now = replace(now, runs=quiet, disturbed_runs=now.runs[2:])
    assert judged(now).verdict is Verdict.REGRESSED
    stolen = replace(now.disturbed_runs[0], others_cpu_alone=False)
    now = replace(now, disturbed_runs=(stolen, *now.disturbed_runs[1:]))
    assert judged(now).verdict is Verdict.INCOMPARABLE
