"""Runs of cases without a verdict: reported at the end of a session, and used by a later one."""

from __future__ import annotations

import json
import shutil
import signal

import pytest

from pytest_dlperf.cli.main import main
from tests.helpers.ended_session import CASES, TESTS, end, hangs, in_junit, start, until
from tests.helpers.fake_suite import Suite

# Many sessions; .ci/run has them
pytestmark = pytest.mark.slow


def test_runs_that_came_to_no_verdict_are_shown_and_a_later_session_goes_on_from_them(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
):
    suite.write(TESTS.replace("runs=1, max_runs=1", "runs=3, max_runs=3"))
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
    shown = (suite.path / "out.txt").read_text(encoding="utf-8")
    assert f"{CASES[0]}" in shown
    assert main(["baselines", "accept", str(suite.path / "r.json"), f"--baselines={suite.path}"])

    monkeypatch.delenv("FAKE_HANG")
    log.unlink()
    result = suite.run("--dlperf-resume=r.json", "--dlperf-json=n.json")
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

    # Of another commit, or without the folder of that session, all is measured again
    shutil.rmtree(suite.path / ".dlperf")
    log.unlink()
    result = suite.run("--dlperf-resume=r.json", "-k", "bs1")
    assert len(log.read_text("utf-8").splitlines()) == 3
    assert "are not used" in result.stdout.str()


def test_under_xdist_in_the_rounds(suite: Suite, monkeypatch: pytest.MonkeyPatch):
    suite.write(TESTS.replace("runs=1, max_runs=1", "runs=3, max_runs=3"))
    suite.env(FAKE_HANG="*bs2*/run2")
    session = start(suite, "-n2")
    # Whichever process is in the second round first, each case has a run by then
    until(lambda: hangs(suite, "run2"), session)
    assert end(suite, session, signal.SIGTERM) == 143
    found = {outcome["case"]["id"]: outcome for outcome in suite.read_outcomes()}
    assert set(found) == set(CASES)
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
