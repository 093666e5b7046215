"""The level gets what was shown to be at it: all else needs a reason, and fails as ever."""

from __future__ import annotations

import sys

import pytest

from tests.helpers.fake_suite import Suite

pytestmark = pytest.mark.slow  # many sessions; .ci/run has them

ONE = "net-torch-fp32-bs4-1n1c"
NIGHTLY = ("--cpus=1", "--dlperf-tolerance=5%", "--update-baselines")


def stored(suite: Suite) -> dict[str, bytes]:
    """Return the files of all baselines."""
    paths = (suite.path / "baselines").rglob("*.json")
    return {str(path): path.read_bytes() for path in paths}


def accept(suite: Suite, *arguments: str) -> pytest.RunResult:
    command = (sys.executable, "-m", "pytest_dlperf.cli", "baselines", "accept", suite.results)
    return suite.pytester.run(*command, *arguments)


@pytest.mark.parametrize("nights", [2, pytest.param(5, marks=pytest.mark.nightly)])
def test_nights_of_slower_code_never_become_the_level(suite: Suite, nights: int):
    suite.env(FAKE_SEED=0, FAKE_STEP_S=0.01)
    assert suite.run(*NIGHTLY, "--dlperf-strict").ret == 0
    before = stored(suite)
    suite.env(FAKE_STEP_S=0.0107)  # 6.5 % slower
    for night in range(1, nights + 1):
        suite.env(FAKE_SEED=night)
        result, outcomes = suite.outcomes(*NIGHTLY, "--dlperf-strict")
        one = outcomes[ONE]
        assert (result.ret, one["judgement"]["verdict"]) == (1, "inconclusive")
        assert (one["failed"], one["update"]) == (True, "")
        assert stored(suite) == before
    says = "the baseline was not written: *the verdict is inconclusive*--dlperf-against=REF*"
    result.stdout.fnmatch_lines([f"*{says}--dlperf-reason=TEXT*"])
    # What a red session measured is not accepted without a word either
    accepted = accept(suite)
    assert accepted.ret == 1
    accepted.stderr.fnmatch_lines(["refused *the verdict is inconclusive*--reason=TEXT*"])
    assert stored(suite) == before

    # Nothing is gated, so nothing fails; the level is the same for all that
    result, outcomes = suite.outcomes(*NIGHTLY, "--dlperf-mode=observe")
    assert (result.ret, outcomes[ONE]["update"]) == (0, "appended")
    found = suite.baselines()[ONE]
    assert [one["reason"] for one in found["sessions"]] == ["", "observed: inconclusive"]

    # With a reason it is one of the level
    assert accept(suite, "--reason=the same code").ret == 0
    found = suite.baselines()[ONE]
    assert [one["reason"] for one in found["sessions"]] == ["", "the same code"]


def test_with_a_reason_an_open_session_is_stored_and_passes(suite: Suite):
    suite.env(FAKE_SEED=0, FAKE_STEP_S=0.01)
    assert suite.run(*NIGHTLY, "--dlperf-strict").ret == 0
    suite.env(FAKE_SEED=1, FAKE_STEP_S=0.0107)
    given = "--dlperf-reason=a slower disk"
    result, outcomes = suite.outcomes(*NIGHTLY, "--dlperf-strict", given)
    one = outcomes[ONE]
    assert (result.ret, one["judgement"]["verdict"]) == (0, "inconclusive")
    assert (one["failed"], one["update"]) == (False, "appended")
    sessions = suite.baselines()[ONE]["sessions"]
    assert [one["reason"] for one in sessions] == ["", "a slower disk"]
