"""A launch that the infrastructure failed is repeated twice, and reported; nothing else is."""

from __future__ import annotations

import sys
from typing import Any

import jsonschema
import pytest

from pytest_dlperf.report.schemas import results_schema
from tests.helpers.fake_suite import Suite

pytestmark = pytest.mark.slow  # many sessions; .ci/run has them


#: Ends with the words of the file ``words`` unless it is launched for the ``good`` time.
PROGRAM = """
import os, pathlib, sys
count = pathlib.Path("count")
launched = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(launched))
good, words = pathlib.Path("says").read_text().split("\\n", 1)
if launched < int(good):
    sys.exit(words)
for step in range(1, 151):
    print(f"step {step}: 0.0100 s")
"""
TESTS = f"""
import pytest
from pytest_dlperf import pattern

LOG = pattern(r"step (?P<step>[0-9]+): (?P<seconds>[0-9.]+) s", scope="device", unit="images")

@pytest.mark.dlperf(command=[{sys.executable!r}, "program.py"], log_format=LOG, layout="1n1c",
                    framework="torch", launcher=None, batch_size_per_device=4, unit="images")
def test_net(dlperf):
    dlperf.run()
"""
PORT = "torch.distributed.DistNetworkError: name: EADDRINUSE, message: address already in use"


@pytest.fixture
def program(suite: Suite) -> Suite:
    suite.write(TESTS)
    (suite.path / "program.py").write_text(PROGRAM)
    return suite


def run(suite: Suite, good: int, words: str, *arguments: str) -> tuple[str, dict[str, Any], int]:
    (suite.path / "says").write_text(f"{good}\n{words}")
    result, outcomes = suite.outcomes("--dlperf-runs=1", *arguments)
    [outcome] = outcomes.values()
    return result.stdout.str(), outcome, int((suite.path / "count").read_text())


def test_repeated_until_it_starts(program: Suite):
    program.env(WANDB_API_KEY="key-of-may")
    printed, outcome, launches = run(program, 3, f"{PORT} for key-of-may")
    assert launches == 3
    assert outcome["judgement"]["verdict"] == "no-baseline"
    [problem] = [p for p in outcome["measurement"]["problems"] if p["code"] == "launch-retried"]
    said = f"run1 was launched again: a port was taken: {PORT} for … ("
    assert problem["message"].startswith(said)
    assert "key-of-may" not in printed
    assert f"note: {outcome['case']['id']}: {problem['message']}" in printed
    assert "run1 is launched again (2 of 3): a port was taken" in printed
    assert "run1 is launched again (3 of 3): a port was taken" in printed
    folder = program.path / outcome["folder"]
    for name in ("run1.failed1", "run1.failed2"):
        assert f"{folder / name / 'output.log'}" in problem["message"]
        assert PORT in (folder / name / "output.log").read_text()
    assert "step 150" in (folder / "run1" / "output.log").read_text()
    jsonschema.validate({"format": 1, "outcomes": [outcome]}, results_schema())


def test_given_up_after_three(program: Suite):
    _, outcome, launches = run(program, 99, PORT)
    assert launches == 3
    assert outcome["judgement"]["verdict"] == "error"
    reason = outcome["judgement"]["reason"]
    assert "launched 3 times, and no rank came to its first step: a port was taken" in reason
    assert "run1.failed1/output.log" in reason
    assert "run1.failed2/output.log" in reason
    assert "run1/output.log" in reason


def test_another_failure_is_final(program: Suite):
    _, outcome, launches = run(program, 99, "ValueError: boom")
    assert launches == 1
    assert outcome["judgement"]["verdict"] == "error"
    assert "launched" not in outcome["judgement"]["reason"]


def test_no_time_is_left_to_repeat(program: Suite):
    _, outcome, launches = run(program, 99, PORT, "--dlperf-budget=1s")
    assert launches <= 2
    assert outcome["judgement"]["verdict"] == "error"


def test_a_slow_result_is_not_repeated(suite: Suite):
    suite.env(FAKE_LOG=suite.path / "launches", FAKE_STEP_S=0.01)
    assert suite.run("--update-baselines", "-k1n1c").ret == 0
    (suite.path / "launches").unlink()
    suite.env(FAKE_STEP_S=0.02)
    _, outcomes = suite.outcomes("-k1n1c", "--dlperf-runs=3")
    [outcome] = outcomes.values()
    assert outcome["judgement"]["verdict"] == "regressed"
    assert len((suite.path / "launches").read_text().splitlines()) == 3
    assert "launch-retried" not in {p["code"] for p in outcome["measurement"]["problems"]}
