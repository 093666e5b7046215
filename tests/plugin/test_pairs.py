"""Pairs of runs, in lock-step and alternating, with a fake launcher; real ones in tests/torch."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import pytest_dlperf.report
from tests.helpers.fake_repository import ONE, TWO, WIDE, commit, git
from tests.helpers.fake_suite import Suite

pytestmark = pytest.mark.slow  # many sessions; .ci/run has them


@pytest.mark.nightly  # the gate has the facts of a single arm
def test_both_arms_sample_scaling_in_the_same_pairs(repository: Suite):
    repository.env(FAKE_SCALING=0.2)
    _, outcomes = repository.outcomes("-k", "1n2c", "--dlperf-against=HEAD", WIDE)
    arms = [outcomes[TWO]["measurement"], outcomes[TWO]["against"]["measurement"]]
    told = [[run["scaling"] is not None for run in one["runs"]] for one in arms]
    assert told == [[True, False, False], [True, False, False]]


def test_a_slower_head_is_found_and_its_arms_are_recorded(repository: Suite):
    first = git(repository, "rev-parse", "HEAD")
    commit(repository, 0.012)
    result, outcomes = repository.outcomes("-k", "1n1c", "--dlperf-against=HEAD~1")
    assert result.ret == 1, result.stdout.str()
    outcome = outcomes[ONE]
    judgement = outcome["judgement"]
    assert judgement["verdict"] == "regressed"
    assert judgement["change"] == pytest.approx(0.01 / 0.012 - 1, abs=0.02)
    assert f"than HEAD~1 (commit {first[:7]})" in judgement["reason"]
    assert judgement["metrics"]["cpu_seconds"]["change"] == pytest.approx(0.2, abs=0.03)
    assert not judgement["provisional"]
    against = outcome["against"]
    assert (against["name"], against["kind"], against["commit"]) == ("HEAD~1", "ref", first)
    runs, others = outcome["measurement"]["runs"], against["measurement"]["runs"]
    assert len(runs) == len(others) == 5
    assert against["measurement"]["throughput"] > outcome["measurement"]["throughput"]
    assert against["order"] == ["both"] * 5
    assert "in 5 pairs of runs in lock-step" in judgement["details"][0]
    turns = [run["turns"] for run in (*runs, *others)]
    # The window of a second was made five seconds long, in turns of 0.15 s
    protocol = outcome["case"]["protocol"]
    assert protocol["lengthened_from"] == 150
    assert outcome["measurement"]["conditions"]["window"] == [50, protocol["iterations"]]
    # By the faster arm of the trial, which sleeps for 10 ms, and more if others have the cores
    assert 250 < protocol["iterations"] < 570
    assert turns[:5] == turns[5:], "in turn with each other"
    for one in turns:
        length = one[1] - one[0]
        assert 3 <= length <= 13
        assert one == list(range(50, protocol["iterations"], length))
    values = json.loads((repository.path / "r.json").read_text(encoding="utf-8"))
    schema = Path(pytest_dlperf.report.__file__).with_name("outcomes.schema.json")
    jsonschema.validate(values, json.loads(schema.read_text(encoding="utf-8")))


@pytest.mark.nightly  # the gate has its main way
def test_a_window_that_was_given_stays_as_long(repository: Suite):
    _, outcomes = repository.outcomes(
        "-k", "1n1c", "--dlperf-against=HEAD", WIDE, "--dlperf-iterations=140"
    )
    runs = outcomes[ONE]["measurement"]["runs"]
    # Eight turns, as 0.15 s are longer than an eighth of the window
    assert [run["turns"] for run in runs] == [list(range(50, 140, 12))] * len(runs)


@pytest.mark.nightly  # the gate has its main way
def test_a_window_is_not_made_longer_where_the_budget_has_no_time_for_it(repository: Suite):
    # For a longer pair, but not for the three of a first look
    _, outcomes = repository.outcomes(
        "-k", "1n1c", "--dlperf-against=HEAD", WIDE, "--dlperf-budget=25s"
    )
    outcome = outcomes[ONE]
    assert outcome["measurement"]["runs"]
    assert outcome["measurement"]["conditions"]["window"] == [50, 150]
    assert outcome["case"]["protocol"]["lengthened_from"] is None


@pytest.mark.nightly  # the gate has its main way
def test_launches_alternate_where_the_user_asks_for_it(repository: Suite):
    commit(repository, 0.012)
    result, outcomes = repository.outcomes(
        "-k", "1n1c", "--dlperf-against=HEAD~1", "--dlperf-pairs=alternating"
    )
    assert result.ret == 1, result.stdout.str()
    outcome = outcomes[ONE]
    order = outcome["against"]["order"]
    assert len(order) == 5
    assert {order[0], order[1]} == {"now", "before"}
    assert "lock-step" not in outcome["judgement"]["details"][0]
    [note] = [p for p in outcome["measurement"]["problems"] if p["code"] == "alternating"]
    assert note["message"] == "launches alternate: as --dlperf-pairs asks for it"
    assert all(run["turns"] == [] for run in outcome["measurement"]["runs"])


def test_launches_alternate_where_both_arms_do_not_fit(repository: Suite):
    commit(repository, 0.012)
    repository.env(FAKE_ALONE=repository.path / "gpu")
    result, outcomes = repository.outcomes("-k", "1n1c", "--dlperf-against=HEAD~1")
    assert result.ret == 1, result.stdout.str()
    outcome = outcomes[ONE]
    assert outcome["judgement"]["verdict"] == "regressed"
    assert set(outcome["against"]["order"]) == {"now", "before"}
    [note] = [p for p in outcome["measurement"]["problems"] if p["code"] == "alternating"]
    assert "both arms at once failed" in note["message"]
    assert "CUDA out of memory" in note["message"]


def test_arms_alternate_where_a_rank_works_while_it_waits(repository: Suite):
    """In a later pair as well, and the pairs before it do not count."""
    commit(repository, 0.012)
    repository.env(FAKE_READS_AHEAD="*/run3")
    result, outcomes = repository.outcomes("-k", "1n1c", "--dlperf-against=HEAD~1")
    assert result.ret == 1, result.stdout.str()
    outcome = outcomes[ONE]
    assert outcome["judgement"]["verdict"] == "regressed"
    assert set(outcome["against"]["order"]) == {"now", "before"}
    assert all(run["turns"] == [] for run in outcome["measurement"]["runs"])
    [note] = [p for p in outcome["measurement"]["problems"] if p["code"] == "alternating"]
    assert "work while it waits" in note["message"]
    asked = ("-k", "1n1c", "--dlperf-against=HEAD~1", "--dlperf-pairs=lock-step")
    _, outcomes = repository.outcomes(*asked)
    assert outcomes[ONE]["judgement"]["verdict"] == "error"


def test_a_training_that_fails_in_lock_step_is_an_error_and_not_launched_again(repository: Suite):
    launches = repository.path / "launches"
    repository.env(FAKE_FAIL="*/run1", FAKE_ERROR="ValueError: the loss is nan", FAKE_LOG=launches)
    _, outcomes = repository.outcomes("-k", "1n1c", "--dlperf-against=HEAD")
    assert outcomes[ONE]["judgement"]["verdict"] == "error"
    assert "the loss is nan" in outcomes[ONE]["judgement"]["reason"]
    assert len(launches.read_text(encoding="utf-8").splitlines()) == 2


def test_arms_that_do_not_fit_are_an_error_where_lock_step_was_asked_for(repository: Suite):
    repository.env(FAKE_ALONE=repository.path / "gpu")
    result, outcomes = repository.outcomes(
        "-k", "1n1c", "--dlperf-against=HEAD", "--dlperf-pairs=lock-step"
    )
    assert result.ret == 1
    assert outcomes[ONE]["judgement"]["verdict"] == "error"
    assert "CUDA out of memory" in outcomes[ONE]["judgement"]["reason"]


ALTERNATING = "--dlperf-pairs=alternating"


def test_a_disturbed_run_disturbs_its_pair_where_launches_alternate(repository: Suite):
    repository.env(FAKE_OTHERS=0.5, FAKE_OTHERS_IN="*/before/*/run1")
    _, outcomes = repository.outcomes("-k", "1n1c", "--dlperf-against=HEAD", WIDE, ALTERNATING)
    outcome = outcomes[ONE]
    assert outcome["judgement"]["verdict"] == "passed"
    [mine] = outcome["measurement"]["disturbed_runs"]
    [other] = outcome["against"]["measurement"]["disturbed_runs"]
    assert mine["disturbed"] == f"the other run of its pair: {other['disturbed']}"
    assert len(outcome["measurement"]["runs"]) == 3
    assert len(outcome["against"]["order"]) == 4


@pytest.mark.nightly  # the gate has its main way
@pytest.mark.parametrize("how", [(), (ALTERNATING,)])
def test_pairs_decide_on_a_machine_that_stays_disturbed(repository: Suite, how: tuple[str, ...]):
    """Neighbours meet both arms alike: in lock-step at once, in alternating launches by chance."""
    repository.env(FAKE_OTHERS=0.5, FAKE_OTHERS_IN="*/before/*")
    against = ("--dlperf-against=HEAD", *how, WIDE)
    _, outcomes = repository.outcomes("-k", "1n1c", *against)
    assert outcomes[ONE]["judgement"]["verdict"] == "passed"
    notes = {p["code"]: p["message"] for p in outcomes[ONE]["against"]["measurement"]["problems"]}
    assert notes["shared-machine"].startswith("others used")
    _, outcomes = repository.outcomes("-k", "1n1c", *against, "--dlperf-inject=60%")
    assert outcomes[ONE]["judgement"]["verdict"] == "regressed"


def test_injection_slows_this_side_alone(repository: Suite):
    _, outcomes = repository.outcomes(
        "-k", "1n1c", "--dlperf-against=HEAD", "--dlperf-inject=30%", "--dlperf-max-runs=6"
    )
    assert outcomes[ONE]["judgement"]["verdict"] == "regressed"
    assert outcomes[ONE]["judgement"]["change"] == pytest.approx(1 / 1.3 - 1, abs=0.02)
    assert outcomes[ONE]["against"]["measurement"]["inject"] == 0
    assert "null" not in outcomes[ONE]["judgement"]["reason"], "the arms are not the same"
