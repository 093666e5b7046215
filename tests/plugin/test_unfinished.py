"""Runs of cases without a verdict: reported at the end of a session, and used by a later one."""

from __future__ import annotations

import json
import platform
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.cli.main import main
from tests.helpers.ended_session import CASES, TESTS, end, hangs, in_junit, start, until
from tests.helpers.fake_repository import git
from tests.helpers.fake_suite import Suite

# Many sessions; .ci/run has them
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def ranks_of_this_host(suite: Suite) -> None:
    """Have the fake ranks name this host: runs of another host are not used."""
    suite.env(FAKE_NODE=platform.node())


@pytest.mark.nightly  # the gate has its main way
def test_runs_that_came_to_no_verdict_are_shown_and_a_later_session_goes_on_from_them(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
):
    suite.write(TESTS.replace("runs=1, max_runs=1", "runs=3, max_runs=3"))
    git(suite, "init", "-q")
    git(suite, "add", "test_net.py")
    git(suite, "commit", "-qm", "one")
    log = suite.path / "launches"
    suite.env(FAKE_LOG=log)
    assert suite.run("--update-baselines", "--dlperf-reason=first", "-k", "bs1").ret == 0
    suite.env(FAKE_HANG="*bs2*/run2", FAKE_STEP_S=0.02)
    session = start(suite)
    # In the second of the rounds that are measured before any test
    until(lambda: hangs(suite, "run2"), session)
    assert end(suite, session, signal.SIGTERM) == 143
    found = {outcome["case"]["id"]: outcome for outcome in suite.read_outcomes()}
    runs = {case_id: len(one["measurement"]["runs"]) for case_id, one in found.items()}
    assert runs == dict(zip(CASES, (2, 1, 1), strict=True))
    first = found[CASES[0]]["judgement"]
    assert first["verdict"] == "not-run"
    assert first["reason"] == (
        "2 runs were measured, and not judged: SIGTERM ended the session before its end"
    )
    # What they show is seen, and counts nowhere
    assert first["change"] == pytest.approx(-0.5, abs=0.1)
    assert first["refused"]
    before = suite.baselines()
    baselines = f"--baselines={suite.path / 'baselines'}"
    assert main(["baselines", "accept", str(suite.path / "r.json"), baselines]) == 1
    assert suite.baselines() == before

    monkeypatch.delenv("FAKE_HANG")
    log.unlink()
    result = suite.run("--dlperf-resume=r.json", "--dlperf-json=n.json", "--dlperf-confirm=never")
    launched = [line.split()[0] for line in log.read_text("utf-8").splitlines()]
    assert launched == [CASES[0], *[CASES[1]] * 2, *[CASES[2]] * 2]
    values = json.loads((suite.path / "n.json").read_text(encoding="utf-8"))
    after = {outcome["case"]["id"]: outcome for outcome in values["outcomes"]}
    assert {case_id: len(one["measurement"]["runs"]) for case_id, one in after.items()} == (
        dict.fromkeys(CASES, 3)
    )
    assert after[CASES[0]]["judgement"]["verdict"] == "regressed"
    assert after[CASES[1]]["judgement"]["verdict"] == "no-baseline"
    codes = [problem["code"] for problem in after[CASES[0]]["measurement"]["problems"]]
    assert codes == ["runs-taken"]
    assert result.ret == 1

    # Under other variables, of another commit, without one, or without the folder of that
    # session, all is measured again
    monkeypatch.setenv("OMP_PLACES", "cores")
    measures_all(suite, log, "OMP_PLACES changed")
    monkeypatch.delenv("OMP_PLACES")
    (suite.path / "right.json").write_bytes((suite.path / "r.json").read_bytes())
    change(suite, commit="f" * 40)
    measures_all(suite, log, "commit: *, was fffffff")
    (suite.path / "right.json").rename(suite.path / "r.json")
    (suite.path / ".git").rename(suite.path / "no.git")
    change(suite, commit="")
    measures_all(suite, log, "without a git commit, nothing shows that the code is the same")
    (suite.path / "no.git").rename(suite.path / ".git")
    change(suite, commit=git(suite, "rev-parse", "HEAD"))
    shutil.rmtree(suite.path / ".dlperf")
    measures_all(suite, log, "does not have them")


def measures_all(suite: Suite, log: Path, why: str) -> None:
    """Go on with the first case, none of whose two runs may be used, for ``why``."""
    log.unlink()
    never = "--dlperf-confirm=never"
    result = suite.run("--dlperf-resume=r.json", "--dlperf-json=n.json", "-k", "bs1", never)
    assert len(log.read_text("utf-8").splitlines()) == 3
    result.stdout.fnmatch_lines([f"*its runs in *r.json are not used: *{why}*"])


def change(suite: Suite, **fields: Any) -> None:
    """Change the outcome of the first case in the results file."""
    path = suite.path / "r.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    [found] = [one for one in values["outcomes"] if one["case"]["id"] == CASES[0]]
    found.update(fields)
    path.write_text(json.dumps(values), encoding="utf-8")


def test_a_run_that_failed_in_the_rounds_is_an_error_and_stays_one(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
):
    suite.write(TESTS.replace("runs=1, max_runs=1", "runs=3, max_runs=3"))
    log = suite.path / "launches"
    suite.env(FAKE_LOG=log, FAKE_FAIL="*bs1*/run2", FAKE_HANG="*bs2*/run2")
    session = start(suite)
    until(lambda: hangs(suite, "run2"), session)
    assert end(suite, session, signal.SIGTERM) == 143
    found = {outcome["case"]["id"]: outcome for outcome in suite.read_outcomes()}
    assert found[CASES[0]]["judgement"]["verdict"] == "error"
    assert "ValueError: boom" in found[CASES[0]]["judgement"]["reason"]
    assert found[CASES[0]]["failed"]
    for name in ("FAKE_FAIL", "FAKE_HANG"):
        monkeypatch.delenv(name)
    log.unlink()
    result = suite.run("--dlperf-resume=r.json", "--dlperf-json=n.json")
    assert CASES[0] not in log.read_text("utf-8")
    assert result.ret == 1
    result.assert_outcomes(failed=1, passed=1)


def test_a_verdict_that_a_budget_cut_short_is_not_that_of_an_ended_session(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
):
    suite.write(TESTS)
    assert suite.run("--dlperf-json=r.json", "-k", "bs1").ret == 0
    [outcome] = suite.read_outcomes()
    problem = {"code": "cut-short", "message": "the budget was spent"}
    measurement = outcome["measurement"] | {"problems": [problem]}
    judgement = outcome["judgement"] | {"verdict": "regressed"}
    change(suite, measurement=measurement, judgement=judgement, commit="f" * 40)
    (suite.path / "r.json").rename(suite.path / "before.json")
    suite.env(FAKE_HANG="*/run*")
    session = start(suite, "--dlperf-resume=before.json")
    until(lambda: "torchrun" in "".join(suite.ours()), session)
    assert end(suite, session, signal.SIGTERM) == 143
    found = {one["case"]["id"]: one for one in suite.read_outcomes()}[CASES[0]]
    assert (found["judgement"]["verdict"], found["failed"]) == ("not-run", False)
    assert found["interrupted"]
    # A later session can go on from its runs, if nothing differs
    assert found["measurement"] == measurement
    assert found["commit"] == "f" * 40


@pytest.mark.parametrize(
    "parameters",
    [pytest.param("", marks=pytest.mark.nightly), '@pytest.mark.parametrize("x", [1])\n'],
    ids=["marker", "parametrized"],
)
def test_under_xdist_in_the_rounds(suite: Suite, monkeypatch: pytest.MonkeyPatch, parameters: str):
    text = TESTS.replace("runs=1, max_runs=1", "runs=3, max_runs=3")
    if parameters:
        text = text.replace("def test_net(dlperf)", f"{parameters}def test_net(dlperf, x)")
    suite.write(text)
    suite.env(FAKE_HANG="*bs2*/run2")
    session = start(suite, "-n2")
    # Whichever process is in the second round first, each case has a run by then
    until(lambda: hangs(suite, "run2"), session)
    assert end(suite, session, signal.SIGTERM) == 143
    found = {outcome["case"]["id"]: outcome for outcome in suite.read_outcomes()}
    own = "-x1-1n1c" if parameters else "-1n1c"
    assert set(found) == {case_id.replace("-1n1c", own) for case_id in CASES}
    assert all(one["judgement"]["verdict"] == "not-run" for one in found.values())
    assert all(one["measurement"]["runs"] for one in found.values())
    assert len(in_junit(suite)) >= 3
    # The next one is interrupted as well, before it has measured anything
    monkeypatch.delenv("FAKE_HANG")
    suite.env(FAKE_HANG="*/run*")
    (suite.path / "before.json").write_bytes((suite.path / "r.json").read_bytes())
    session = start(suite, "--dlperf-resume=before.json")
    until(lambda: "torchrun" in "".join(suite.ours()), session)
    assert end(suite, session, signal.SIGTERM) == 143
    again = {outcome["case"]["id"]: outcome for outcome in suite.read_outcomes()}
    runs = {case_id: len(one["measurement"]["runs"]) for case_id, one in found.items()}
    assert {case_id: len(one["measurement"]["runs"]) for case_id, one in again.items()} == runs
