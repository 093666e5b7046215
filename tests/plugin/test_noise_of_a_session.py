"""``noise.json`` is one and the same for all cases of a session, and learnt at its end."""

from __future__ import annotations

import pytest

from tests.helpers.fake_suite import Suite

ONE = "net-torch-fp32-bs4-1n1c"

#: Notes what noise.json says whenever a case has ended.
NOTED = """
from pathlib import Path

def pytest_dlperf_outcome(outcome):
    texts = [path.read_text() for path in Path("baselines").glob("*/noise.json")]
    with Path("noted.txt").open("a") as file:
        file.write(repr("".join(texts)) + chr(10))
"""
#: Puts something into the place of noise.json that no file can replace.
IN_THE_WAY = """
from pathlib import Path

def pytest_dlperf_outcome(outcome):
    (next(Path("baselines").iterdir()) / "noise.json" / "folder").mkdir(parents=True)
"""
#: As where a file of the store becomes unreadable while the session ends.
UNREADABLE = """
from pytest_dlperf.core.errors import BaselineError
from pytest_dlperf.session.terminal import summary

def fail(*_, **__):
    raise BaselineError("noise.json: gone")

summary.with_later_sessions = fail
"""


@pytest.mark.parametrize("processes", [(), ("-n2",)], ids=["one-process", "xdist"])
def test_no_case_sees_what_the_session_teaches(suite: Suite, processes: tuple[str, ...]):
    suite.pytester.makeconftest(NOTED)
    taught = [""]
    for seed in range(2):
        suite.env(FAKE_SEED=seed)
        assert suite.run("--update-baselines", *processes).ret == 0
        (path,) = suite.path.glob("baselines/*/noise.json")
        noted = (suite.path / "noted.txt").read_text().splitlines()
        assert noted[2 * seed :] == [repr(taught[-1])] * 2
        taught.append(path.read_text())
    assert len(set(taught)) == 3
    assert [len(b["sessions"]) for b in suite.baselines().values()] == [2, 2]


def test_noise_that_cannot_be_learnt_is_reported_and_fails_the_session(suite: Suite):
    suite.pytester.makeconftest(IN_THE_WAY)
    result = suite.run("--update-baselines", "--cpus=1")
    result.assert_outcomes(passed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["the noise of * was NOT learnt: *: exit code 1"])
    assert len(suite.baselines()[ONE]["sessions"]) == 1


def test_without_what_later_sessions_can_detect_all_reports_are_written(suite: Suite):
    suite.pytester.makeconftest(UNREADABLE)
    result, outcomes = suite.outcomes("--update-baselines", "--cpus=1")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["what later sessions can detect is NOT known: *gone: exit code 1"]
    )
    assert outcomes[ONE]["update"] == "created"
    assert outcomes[ONE]["later"] is None


def test_what_a_later_session_can_detect_is_what_it_detects(suite: Suite):
    stored, outcomes = suite.outcomes("--update-baselines", "--cpus=1", "--dlperf-runs=4")
    later = outcomes[ONE]["later"]
    said = f"can detect slowdowns from {100 * later['sees']:.1f} % on, by 1 stored session, which"
    stored.stdout.fnmatch_lines([f"{ONE}: a later session of 4 runs {said}*"])
    # The same noise again: what it detects is what was said.
    _, outcomes = suite.outcomes("--cpus=1", "--dlperf-runs=4")
    assert outcomes[ONE]["judgement"]["sees"] == pytest.approx(later["sees"], rel=0.02)
    assert outcomes[ONE]["later"] is None


def test_a_machine_that_varies_is_said_what_would_help(suite: Suite):
    suite.env(FAKE_NOISY="*", FAKE_SEED=1)
    options = ("--update-baselines", "--cpus=1", "--dlperf-runs=4")
    stored, outcomes = suite.outcomes(*options, "--dlperf-html=page.html")
    later = outcomes[ONE]["later"]
    assert later["sees"] > later["wanted"]
    by = {one["what"]: one for one in later["remedies"]}
    assert by["sessions"]["sees"] < later["sees"]
    help_ = f"store {by['sessions']['count']} more session"
    stored.stdout.fnmatch_lines([f"{ONE}: a later session *; to detect smaller ones: {help_}*"])
    assert f"to detect smaller ones: {help_}" in (suite.path / "page.html").read_text()


def test_nothing_is_said_of_later_sessions_where_nothing_was_stored(suite: Suite):
    suite.run("--update-baselines", "--cpus=1")
    suite.run("--cpus=1").stdout.no_fnmatch_line("*a later session*")
    suite.run("--update-baselines", "--cpus=1", "-q").stdout.no_fnmatch_line("*a later session*")
