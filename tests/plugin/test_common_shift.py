"""A session whose cases are all slower alike, through the plugin."""

from __future__ import annotations

import pytest

from tests.helpers.fake_suite import TESTS, Suite

pytestmark = pytest.mark.slow  # many sessions; .ci/run has them


FOUR = TESTS.replace("batch_size_per_device=4", "batch_size_per_device=[4, 8]")


def test_after_two_cases_that_are_slower_alike_the_others_are_incomparable(suite: Suite):
    suite.write(FOUR)
    suite.run("--update-baselines")
    assert len(suite.baselines()) == 4
    suite.env(FAKE_STEP_S=0.02)
    result, outcomes = suite.outcomes()
    assert result.ret == 1
    verdicts = [outcome["judgement"]["verdict"] for outcome in outcomes.values()]
    assert verdicts == ["regressed", "regressed", "incomparable", "incomparable"]
    last = list(outcomes.values())[-1]
    assert (
        "the first 2 cases of this session on here regressed, all " in last["judgement"]["reason"]
    )
    result.stdout.fnmatch_lines(
        [
            "*compare two versions on this machine as it is with --dlperf-against=REF*",
            "4 cases: 2 incomparable, 2 regressed; 2 NOT JUDGED",
            "*2 failed, 2 incomparable in *",
        ]
    )
    low, high = last["judgement"]["interval"]
    assert low < last["judgement"]["change"] < high < 0


def test_slowdowns_that_are_known_are_no_sign_of_a_slower_machine(suite: Suite):
    suite.write(FOUR)
    suite.run("--update-baselines")
    known = '{"issue": "#1", "until": "2999-01-01", "change": "-60%"}'
    suite.write(FOUR.replace('launcher="torchrun"', f'launcher="torchrun", known={known}'))
    suite.env(FAKE_STEP_S=0.02)
    result, outcomes = suite.outcomes()
    found = [(o["judgement"]["verdict"], o["judgement"]["known"]) for o in outcomes.values()]
    assert found == [("regressed", "known")] * 4
    assert result.ret == 0


def test_what_was_slowed_on_purpose_is_found_in_every_case(suite: Suite):
    suite.write(FOUR)
    suite.run("--update-baselines")
    verdicts = suite.verdicts("--dlperf-inject=100%")
    assert set(verdicts.values()) == {"regressed"}


def test_the_processes_of_xdist_share_what_was_judged(suite: Suite):
    pytest.importorskip("xdist")
    suite.write(FOUR)
    suite.run("--update-baselines")
    suite.env(FAKE_STEP_S=0.02)
    verdicts = suite.verdicts("-n2")
    assert sorted(verdicts.values()) == ["incomparable", "incomparable", "regressed", "regressed"]


def test_a_folder_that_cannot_be_written_loses_no_measurement(suite: Suite):
    suite.write(FOUR)
    suite.run("--update-baselines")
    suite.write(
        FOUR.replace(
            "    outcome = dlperf.run()",
            "    from pathlib import Path\n"
            "    for mark in Path('.dlperf').glob('*/.dlperf-session'):\n"
            "        path = mark.parent / 'judged.jsonl'\n"
            "        path.unlink() if path.is_file() else None\n"
            "        path.mkdir(exist_ok=True)\n"
            "    outcome = dlperf.run()",
        )
    )
    result, outcomes = suite.outcomes("-W", "default")
    assert {o["judgement"]["verdict"] for o in outcomes.values()} == {"passed"}
    assert len(outcomes) == 4
    result.stdout.fnmatch_lines(["*cases before net-* were not looked at: *judged.jsonl*"])
