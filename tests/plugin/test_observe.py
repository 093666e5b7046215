"""``--dlperf-mode=observe``: all is measured, shown and stored, and nothing but errors fails."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from tests.helpers.fake_suite import Suite

ONE = "net-torch-fp32-bs4-1n1c"
OBSERVE = ("-k", "1n1c", "--dlperf-mode=observe")


@pytest.mark.slow
def test_a_slowdown_is_shown_as_one_and_fails_nothing(suite: Suite):
    suite.run("--update-baselines", "-k", "1n1c", "--dlperf-runs=2")
    suite.env(FAKE_STEP_S=0.03)
    result, outcomes = suite.outcomes(*OBSERVE, "--dlperf-runs=2", "--junitxml=junit.xml")
    assert result.ret == 0
    assert outcomes[ONE]["judgement"]["verdict"] == "regressed"
    assert not outcomes[ONE]["failed"]
    result.stdout.fnmatch_lines(
        [
            "dlperf: mode observe: nothing fails but errors",
            "*slower than stored; find what changed*",
            "*1 case: 1 regressed*",
            "mode observe: only errors fail; gate mode would have failed 1 of 1 test",
            "*1 regressed*in*",
        ]
    )
    result.assert_outcomes(passed=0)
    case = next(ElementTree.parse(suite.path / "junit.xml").getroot().iter("testcase"))
    skipped = case.find("skipped")
    assert skipped is not None
    assert "regressed (slower): " in skipped.get("message", "")


@pytest.mark.slow
def test_an_error_fails_in_observe_mode_too(suite: Suite):
    suite.run("--update-baselines", "-k", "1n1c", "--dlperf-runs=2")
    suite.env(FAKE_FAIL="*")
    for more in ((), ("--update-baselines",)):
        result = suite.run(*OBSERVE, *more)
        assert result.ret == 1
        result.assert_outcomes(failed=1)
    assert len(suite.baselines()[ONE]["sessions"]) == 1


@pytest.mark.slow
def test_what_gate_mode_would_fail_goes_by_its_own_policy(suite: Suite):
    lenient = suite.run(*OBSERVE, "--dlperf-runs=1")  # no baseline
    lenient.stdout.fnmatch_lines(["mode observe: * gate mode would have failed 0 of 1 test"])
    strict = suite.run(*OBSERVE, "--dlperf-runs=1", "-o", "dlperf_fail_on=no-baseline")
    strict.stdout.fnmatch_lines(["mode observe: * gate mode would have failed 1 of 1 test"])
    assert lenient.ret == strict.ret == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step_s", "verdict"),
    # What looks slower is the one that must not be lost.
    [(0.03, "regressed"), pytest.param(0.004, "improved", marks=pytest.mark.nightly)],
)
def test_what_looks_slower_or_faster_is_stored_beside_the_others(
    suite: Suite, step_s: float, verdict: str
):
    update = (*OBSERVE, "--update-baselines", "--dlperf-runs=2")
    suite.run(*update)
    suite.env(FAKE_STEP_S=step_s)
    result, outcomes = suite.outcomes(*update)
    assert result.ret == 0
    assert outcomes[ONE]["judgement"]["verdict"] == verdict
    assert outcomes[ONE]["update"] == "appended"
    stored = suite.baselines()[ONE]
    assert [one["reason"] for one in stored["sessions"]] == ["", f"observed: {verdict}"]
    assert stored["history"] == []


@pytest.mark.nightly  # the gate has its main way
def test_with_a_reason_a_level_changes_as_it_does_in_gate_mode(suite: Suite):
    suite.run(*OBSERVE, "--update-baselines")
    suite.env(FAKE_STEP_S=0.03)
    reason = "--dlperf-reason=new driver"
    _, outcomes = suite.outcomes(*OBSERVE, "--update-baselines", reason)
    assert outcomes[ONE]["update"] == "replaced"
    stored = suite.baselines()[ONE]
    assert [one["reason"] for one in stored["sessions"]] == ["new driver"]
    assert [len(level["sessions"]) for level in stored["history"]] == [1]


@pytest.mark.nightly  # the gate has its main way
def test_what_is_not_stored_is_reported_and_fails_nothing(suite: Suite):
    suite.run("--update-baselines", "-k", "1n1c")
    run = [*OBSERVE, "--update-baselines", "--dlperf-iterations=100"]  # another window
    result = suite.run(*run)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*incomparable*", "*the baseline was not written*"])
    assert len(suite.baselines()[ONE]["sessions"]) == 1
    assert suite.run(*run[:2], *run[3:]).ret == 1  # gate mode
    for command in (
        ["init", "-q"],
        ["add", "test_net.py"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"],
    ):
        subprocess.run(["git", *command], cwd=suite.path, check=True)
    suite.write((suite.path / "test_net.py").read_text(encoding="utf-8") + "# changed\n")
    result = suite.run(*OBSERVE, "--update-baselines", "--dlperf-tolerance=20%")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*passed*", "*the baseline was not written*modified*"])
    assert len(suite.baselines()[ONE]["sessions"]) == 1


@pytest.mark.slow
def test_a_baseline_that_cannot_be_read_is_an_error(suite: Suite):
    suite.run("--update-baselines", "-k", "1n1c", "--dlperf-runs=1")
    path = next(suite.path.glob(f"baselines/*/*/{ONE}.json"))
    path.write_text("{", encoding="utf-8")
    result = suite.run(*OBSERVE, "--update-baselines", "-W", "ignore")
    assert result.ret == 1
    assert path.read_text(encoding="utf-8") == "{"


@pytest.mark.nightly
def test_the_sessions_that_were_observed_are_what_check_judges(suite: Suite):
    for seed in range(3):
        suite.env(FAKE_SEED=seed)
        assert suite.run(*OBSERVE, "--update-baselines", "--dlperf-tolerance=20%").ret == 0
    suite.env(FAKE_STEP_S=0.03)
    assert suite.run(*OBSERVE, "--update-baselines").ret == 0
    result = suite.pytester.run(
        sys.executable,
        "-m",
        "pytest_dlperf.cli",
        "baselines",
        "check",
        "--tolerance=20%",
        "test_net.py",
    )
    result.stdout.fnmatch_lines([f"{ONE}: throughput of the session of *lower than that of the *"])
    result.stdout.fnmatch_lines(["gate mode would have raised 1 false alarm in 4 sessions"])
