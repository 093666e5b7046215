"""Which runs of a session sample facts about scaling, by a fake launcher's ranks on demand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.fake_suite import Suite

pytestmark = pytest.mark.slow  # many sessions; .ci/run has them


TWO = "net-torch-fp32-bs4-1n2c"


@pytest.fixture
def telling(suite: Suite) -> Suite:
    suite.env(FAKE_SCALING=0.2)
    return suite


def measured(suite: Suite, *arguments: str) -> dict[str, Any]:
    _, outcomes = suite.outcomes("-k", "1n2c", "--dlperf-tolerance=15%", *arguments)
    outcome: dict[str, Any] = outcomes[TWO]
    return outcome


def told(outcome: dict[str, Any]) -> list[bool]:
    return [run["scaling"] is not None for run in outcome["measurement"]["runs"]]


@pytest.mark.nightly  # the gate has its main way
def test_the_first_run_samples_for_all_and_a_slow_case_samples_again(telling: Suite):
    stored = measured(telling, "--update-baselines", "--dlperf-reason=first")
    assert told(stored) == [True, False, False, False, False]
    [session] = telling.baselines()[TWO]["sessions"]
    assert session["scaling"]["collectives_shares"] == [0.2]
    assert session["scaling"]["skew_of"] == "own steps"
    passed = measured(telling)
    assert passed["judgement"]["verdict"] == "passed"
    assert told(passed) == [True, False, False]
    telling.env(FAKE_STEP_S=0.02)
    slow = measured(telling)
    assert slow["judgement"]["verdict"] == "regressed"
    assert told(slow) == [True, False, False, True, True]


def test_of_a_fixed_number_of_runs_three_sample(telling: Suite):
    assert told(measured(telling, "--dlperf-runs=4")) == [True, True, True, False]


def test_what_a_disturbed_run_sampled_is_sampled_by_the_next(telling: Suite):
    telling.env(FAKE_OTHERS=0.5, FAKE_OTHERS_IN="*1n2c/run1")
    outcome = measured(telling)
    assert [run["disturbed"] != "" for run in outcome["measurement"]["disturbed_runs"]] == [True]
    assert told(outcome)[:3] == [True, False, False]
