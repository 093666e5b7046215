"""Which problems of runs are those of their measurement."""

from __future__ import annotations

import pytest

from pytest_dlperf.core.run import MeasuredRun, Problem, RunSummary
from pytest_dlperf.flow.runner import problems_of


def run(*codes: str, disturbed: str = "") -> MeasuredRun:
    summary = RunSummary(
        throughput=100.0, estimates={}, step_seconds=(), ranks=(), peak_memory_bytes=None,
        time_to_first_step_s=None, canary={}, others_cpu_share=None, disturbed=disturbed,
        problems=tuple(Problem(code=code, message=f"it was {code}") for code in codes),
    )  # fmt: skip
    return MeasuredRun(summary=summary, facts={})


@pytest.mark.parametrize("code", ["recompiled", "clocks-disagree"])
def test_a_disturbed_run_that_was_repeated_makes_nothing_unsteady(code: str):
    others = [run() for _ in range(5)]
    assert code in problems_of([*others, run(code)], [])
    assert code not in problems_of([*others, run(code, disturbed="others")], [])
    # Where none is undisturbed, the disturbed ones are what is shown
    assert code in problems_of([run(code, disturbed="others")], [])


def test_what_is_a_note_is_kept_of_every_run_and_of_launches_of_the_parent():
    runs = [run(), run("graph-breaks", disturbed="others")]
    found = problems_of(runs, [run("launch-retried", "recompiled")])
    assert set(found) == {"graph-breaks", "launch-retried"}


def test_drift_counts_where_most_runs_that_count_have_it():
    assert "drift" in problems_of([run("drift"), run("drift"), run()], [])
    assert "drift" not in problems_of([run("drift"), run()], [])
    disturbed = [run("drift", disturbed="others") for _ in range(3)]
    assert "drift" not in problems_of([run("drift"), run(), *disturbed], [])
