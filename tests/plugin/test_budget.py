"""``--dlperf-budget``: time is spent where it helps most, and verdicts say where it was short."""

from __future__ import annotations

import json
import sys

import pytest

from tests.helpers.fake_suite import Suite

pytestmark = pytest.mark.slow  # many sessions; .ci/run has them


ONE, TWO = "net-torch-fp32-bs4-1n1c", "net-torch-fp32-bs4-1n2c"


def ran(result: pytest.RunResult) -> list[str]:
    """Return the case ids in the order of the lines that -v prints when a test ends."""
    return [line.split("[")[1].split("]")[0] for line in result.outlines if "::test_net[" in line
            and ("%]" in line)]  # fmt: skip


@pytest.mark.nightly  # the gate has its main way
def test_what_is_too_short_for_one_run_leaves_every_case_open(suite: Suite) -> None:
    assert suite.run("--update-baselines").ret == 0
    result, outcomes = suite.outcomes("--dlperf-budget=0.001s")
    assert {o["judgement"]["verdict"] for o in outcomes.values()} == {"inconclusive"}
    assert all(o["measurement"] is None for o in outcomes.values())
    assert result.ret == 1, "nothing at all was measured"
    result.stdout.fnmatch_lines(["*was not measured: the budget of 0.001 s was spent before*"])


#: A clock that lets three runs start.
CLOCK = """
from pytest_dlperf.flow.budget import Budget

asked = iter([True, True, True])
Budget.allows = lambda self, run_s: next(asked, False)
"""


@pytest.mark.parametrize(
    ("inject", "verdict", "words"),
    [
        ("90%", "regressed", "*the budget of 60 min was spent before fresh runs confirmed it*"),
        pytest.param(
            "3%", "inconclusive", "*the budget of 60 min is spent*", marks=pytest.mark.nightly
        ),
    ],
)
def test_a_case_for_whose_runs_no_time_was_left_is_judged_by_the_look_that_it_had(
    suite: Suite, inject: str, verdict: str, words: str
) -> None:
    assert suite.run("--update-baselines", "--cpus=1").ret == 0
    suite.pytester.makeconftest(CLOCK)
    options = ["--cpus=1", "--dlperf-budget=1h", "--dlperf-tolerance=1%", "--dlperf-strict"]
    result, outcomes = suite.outcomes(*options, f"--dlperf-inject={inject}")
    assert len(outcomes[ONE]["measurement"]["runs"]) == 3
    assert outcomes[ONE]["judgement"]["verdict"] == verdict
    assert result.ret == 1
    result.stdout.fnmatch_lines([words])


@pytest.mark.nightly  # the gate has its main way
def test_runs_that_are_all_disturbed_when_time_is_up_are_not_judged(suite: Suite) -> None:
    assert suite.run("--update-baselines", "--cpus=1").ret == 0
    suite.pytester.makeconftest(CLOCK)
    suite.env(FAKE_OTHERS=1)
    _, outcomes = suite.outcomes("--cpus=1", "--dlperf-budget=1h")
    measurement, judgement = outcomes[ONE]["measurement"], outcomes[ONE]["judgement"]
    assert all(run["disturbed"] for run in measurement["runs"])
    assert judgement["verdict"] == "incomparable", judgement["reason"]
    assert {problem["code"] for problem in measurement["problems"]} == {"disturbed", "cut-short"}


@pytest.mark.parametrize("slower", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_a_session_cut_short_is_never_stored(suite: Suite, *, slower: bool) -> None:
    assert suite.run("--update-baselines", "--cpus=1").ret == 0
    stored = {path: path.read_bytes() for path in suite.path.glob("baselines/**/*.json")}
    assert len(stored) == 1
    suite.pytester.makeconftest(CLOCK)
    if slower:
        suite.env(FAKE_STEP_S=0.03)
    verdict = "regressed" if slower else "inconclusive"
    options = ["--cpus=1", "--dlperf-budget=1h", "--dlperf-tolerance=1%", "--update-baselines"]
    for mode in ("gate", "observe"):
        result, outcomes = suite.outcomes(
            *options, f"--dlperf-mode={mode}", "--dlperf-reason=we know what we do"
        )
        assert outcomes[ONE]["update"] == ""
        assert outcomes[ONE]["judgement"]["verdict"] == verdict
        result.stdout.fnmatch_lines(
            [
                "*the baseline was not written*the budget of 60 min was spent before all its "
                "runs*",
                f"1 case: 1 {verdict}*",
            ]
        )
        result.assert_outcomes(passed=0, failed=mode == "gate")
        assert result.ret == (mode == "gate")
        assert {p: p.read_bytes() for p in suite.path.glob("baselines/**/*.json")} == stored

    accepted = suite.pytester.run(
        sys.executable, "-m", "pytest_dlperf.cli", "baselines", "accept", "r.json", "--reason=x"
    )
    assert accepted.ret == 1
    accepted.stderr.fnmatch_lines(["refused *no reason overrides this"])
    assert {p: p.read_bytes() for p in suite.path.glob("baselines/**/*.json")} == stored


def test_a_new_case_that_was_cut_short_is_no_baseline(suite: Suite) -> None:
    suite.pytester.makeconftest(CLOCK)
    result, outcomes = suite.outcomes("--cpus=1", "--dlperf-budget=1h", "--update-baselines")
    assert outcomes[ONE]["judgement"]["verdict"] == "no-baseline"
    assert result.ret == 1
    assert suite.baselines() == {}


@pytest.mark.nightly  # the gate has its main way
def test_what_was_certified_longest_ago_goes_first(suite: Suite) -> None:
    suite.run("--update-baselines")
    order = ["--dlperf-budget=1h", "-v"]
    (suite.path / ".dlperf" / "certificates.json").write_text(
        json.dumps({ONE: "2026-01-02T00:00:00Z", TWO: "2026-01-01T00:00:00Z"})
    )
    assert ran(suite.run(*order)) == [TWO, ONE]
    known = json.loads((suite.path / ".dlperf" / "certificates.json").read_text())
    assert known[TWO] > "2026-01-02", "it was certified just now"
    (suite.path / ".dlperf" / "certificates.json").write_text(
        json.dumps({TWO: "2026-01-01T00:00:00Z"})
    )
    assert ran(suite.run(*order)) == [ONE, TWO]
