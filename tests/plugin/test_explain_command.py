"""``dlperf explain``, around a training that is simulated."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.helpers.fake_suite import Suite

pytestmark = pytest.mark.slow  # sessions within a command; .ci/run has them

ID = "net-torch-fp32-bs4-1n2c"
OPTIONS = ("-p", "no:cacheprovider", "--cpus=2", "--dlperf-runs=3")


def explained(suite: Suite, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest_dlperf.cli", "explain", *words, "--", *OPTIONS],
        cwd=suite.path, capture_output=True, text=True, check=False,
    )  # fmt: skip


def launches(suite: Suite) -> list[str]:
    return sorted(path.name for path in suite.path.glob(".dlperf/**/explain?"))


@pytest.mark.parametrize(
    "case", [pytest.param(ID, marks=pytest.mark.nightly), f"test_net.py::test_net[{ID}]"]
)
def test_one_case_is_profiled(suite: Suite, case: str):
    suite.env(FAKE_STEP_S="0.01", FAKE_PROFILE="0.8")
    done = explained(suite, case)
    assert done.returncode == 0, done.stdout + done.stderr
    assert launches(suite) == ["explain1", "explain2"]
    assert f"{ID}: a profiled step of rank " in done.stdout
    profiled = suite.path.glob(".dlperf/**/explain?")
    assert {path.parent.name for path in profiled} == {ID}


def test_both_arms_as_json_alone(suite: Suite):
    suite.env(FAKE_STEP_S="0.02", FAKE_PROFILE="0.4")
    done = explained(suite, "--json", "--against=FAKE_STEP_S=0.01 FAKE_PROFILE=0.8", ID)
    [outcome] = json.loads(done.stdout)["outcomes"]
    assert (done.returncode, outcome["judgement"]["verdict"]) == (1, "regressed")
    assert outcome["explanation"]["agrees"] is True
    assert len(launches(suite)) == 4


def test_what_is_not_profiled_is_named(suite: Suite):
    suite.env(FAKE_STEP_S="0.01", FAKE_PROFILE="torch.profiler failed: boom")
    done = explained(suite, ID)
    assert done.returncode == 1
    assert f"dlperf explain: {ID}: the cause is not known: profile 1 of 2 failed" in done.stderr


def test_a_case_that_is_not_there(suite: Suite):
    done = explained(suite, "net-torch-fp32-bs4-1n7c")
    assert done.returncode == 2
    assert "no case net-torch-fp32-bs4-1n7c was measured" in done.stderr
    assert launches(suite) == []
