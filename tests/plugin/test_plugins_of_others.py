"""Plugins that repeat, rerun or end tests: a case has one outcome all the same."""

from __future__ import annotations

import sys
import time
import xml.etree.ElementTree as ElementTree

import pytest

from tests.helpers.fake_suite import Suite

# Many sessions; the env plugin has those plugins
pytestmark = pytest.mark.slow

ONE = "net-torch-fp32-bs4-1n1c"
TESTS = """
import pytest

@pytest.mark.dlperf("w:build", launcher="torchrun", layout="1n1c", batch_size_per_device=4)
def test_net(dlperf):
    dlperf.run()
"""
REPORTS = ("--junitxml=j.xml", "--dlperf-md=c.md", "--dlperf-html=p.html")


def test_repetition_is_a_matter_of_runs(suite: Suite):
    result = suite.run("--count=2")
    assert result.ret == 4
    assert "--dlperf-runs=N measures a case N times" in result.stderr.str()


@pytest.mark.parametrize(
    "extra", [(), pytest.param(("-n1",), marks=pytest.mark.nightly)], ids=["alone", "xdist"]
)
def test_a_rerun_takes_no_verdict_back_and_is_the_same_case(suite: Suite, extra: tuple[str, ...]):
    suite.write(TESTS)
    assert suite.run("--update-baselines").ret == 0
    suite.env(FAKE_STEP_S=0.03, FAKE_LOG=suite.path / "launches")
    result, outcomes = suite.measured("--reruns=2", *REPORTS, *extra)
    assert result.ret == 1
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*1 case: 1 regressed*", "*1 failed, 2 rerun in *"])
    [outcome] = outcomes
    assert outcome["judgement"]["verdict"] == "regressed"
    assert len(outcome["measurement"]["runs"]) == len(
        (suite.path / "launches").read_text("utf-8").splitlines()
    )
    found = ElementTree.parse(suite.path / "j.xml").iter("property")
    verdicts = [one.get("value") for one in found if one.get("name") == "dlperf_verdict"]
    assert verdicts == ["regressed"]
    assert "1 case: 1 regressed" in (suite.path / "c.md").read_text("utf-8")
    # What one accepts of such a session is one session
    accept = ("baselines", "accept", "r.json", "--reason=known")
    # Another process: pytester lets this one import NumPy for one test alone
    accepted = suite.pytester.run(sys.executable, "-m", "pytest_dlperf.cli", *accept)
    assert accepted.ret == 0
    assert len(suite.baselines()[ONE]["sessions"]) == 1


@pytest.mark.nightly  # the gate has its main way
def test_a_rerun_of_an_error_measures_again_and_stores_once(suite: Suite):
    # In rounds, where why a run failed is kept for its test
    suite.write(TESTS.replace("batch_size_per_device=4", "batch_size_per_device=[4, 8]"))
    suite.write_file(
        "conftest.py",
        """
        import os

        def pytest_runtest_logreport(report):
            if getattr(report, "outcome", "") == "rerun":
                os.environ["FAKE_FAIL"] = ""
        """,
    )
    suite.env(FAKE_FAIL="*bs4*/run2")
    result, outcomes = suite.measured("--reruns=1", "--update-baselines")
    assert result.ret == 0
    assert [o["judgement"]["verdict"] for o in outcomes] == ["passed", "passed"]
    assert [len(b["sessions"]) for b in suite.baselines().values()] == [1, 1]
    result.stdout.fnmatch_lines(["*2 written to the baselines*", "*2 passed, 1 rerun in *"])


@pytest.mark.nightly  # the gate has a rerun of a regression
def test_a_regression_that_a_rerun_skips_is_one(suite: Suite):
    suite.write(TESTS)
    assert suite.run("--update-baselines").ret == 0
    suite.env(FAKE_STEP_S=0.03)
    suite.write(TESTS.replace("(dlperf)", "(server, dlperf)"))
    suite.write_file(
        "conftest.py",
        """
        import pytest

        @pytest.fixture
        def server(request):
            if request.node.execution_count > 1:
                pytest.skip("gone")
        """,
    )
    result, [outcome] = suite.measured("--reruns=1")
    assert result.ret == 1
    assert (outcome["judgement"]["verdict"], outcome["failed"]) == ("regressed", True)


def test_a_test_that_pytest_timeout_ends_is_an_error_that_names_it(suite: Suite):
    suite.write(TESTS)
    suite.env(FAKE_HANG="*/run1")
    result, [outcome] = suite.measured("--timeout=3", *REPORTS)
    assert result.ret == 1
    reason = outcome["judgement"]["reason"]
    assert outcome["judgement"]["verdict"] == "error"
    assert "its test was ended by Timeout (>3.0s) from pytest-timeout" in reason
    assert f"while run 1 of {ONE} was at iteration 0" in reason
    assert "@pytest.mark.timeout(0)" in reason
    result.stdout.fnmatch_lines(["*1 case: 1 error*"])
    assert "pytest-timeout" in (suite.path / "c.md").read_text("utf-8")
    assert suite.ours() == []


@pytest.mark.nightly  # the gate has the end by a timeout
def test_a_session_that_is_gone_at_once_leaves_an_error_in_its_results(suite: Suite):
    suite.write(TESTS)
    suite.env(FAKE_HANG="*/run1")
    result, [outcome] = suite.measured("--timeout=3", "--timeout-method=thread")
    assert result.ret == 1
    assert outcome["judgement"]["verdict"] == "error"
    assert "its session still runs, or pytest was killed," in outcome["judgement"]["reason"]
    end_s = time.monotonic() + 60
    while suite.ours():  # the supervisor ends what runs
        assert time.monotonic() < end_s
        time.sleep(0.1)
    # A session that resumes it measures the case
    suite.env(FAKE_HANG="")
    result = suite.run("--dlperf-resume=r.json", "--dlperf-json=r.json")
    assert result.ret == 0
    [outcome] = suite.read_outcomes()
    assert outcome["judgement"]["verdict"] == "no-baseline"
