"""Pairs of a session that was ended before they decided: what was measured is in its results."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import pytest_dlperf.report
from pytest_dlperf.cli.main import main
from tests.helpers.ended_session import end, start, until
from tests.helpers.fake_repository import ONE, commit, git
from tests.helpers.fake_suite import Suite

# Many sessions; .ci/run has them
pytestmark = pytest.mark.slow

WHY = "and not judged: SIGTERM ended the session before its end"
ONLY = ("-k", "1n1c")
#: Pairs in lock-step take seconds, in which the fake takes turns.
QUICK = "--dlperf-pairs=alternating"


def ended(suite: Suite, *arguments: str, hangs: str, within: str = "") -> dict[str, Any]:
    """Return the outcome of a session that SIGTERM ends when a run of such a folder hangs."""
    suite.env(FAKE_HANG=f"*{within}*{hangs}")
    session = start(suite, *ONLY, *arguments)
    words = ("torchrun", within, hangs)
    until(lambda: any(all(map(line.__contains__, words)) for line in suite.ours()), session)
    assert end(suite, session, signal.SIGTERM) == 143
    values = json.loads((suite.path / "r.json").read_text(encoding="utf-8"))
    schema = Path(pytest_dlperf.report.__file__).with_name("outcomes.schema.json")
    jsonschema.validate(values, json.loads(schema.read_text(encoding="utf-8")))
    # Reports of the pairs are those that the file makes later
    page = suite.path / "q.html"
    assert main(["report", str(suite.path / "r.json"), f"--html={page}"]) == 0
    assert page.read_bytes() == (suite.path / "p.html").read_bytes()
    [outcome] = values["outcomes"]
    assert outcome["judgement"]["verdict"] == "not-run"
    assert outcome["judgement"]["refused"]
    assert outcome["interrupted"]
    return dict(outcome)


@pytest.mark.parametrize(
    "how",
    [(QUICK,), (QUICK, "-n1"), pytest.param((), marks=pytest.mark.nightly)],
    ids=["alternating", "xdist", "lock-step"],
)
def test_pairs_with_another_version_are_kept(repository: Suite, how: tuple[str, ...]):
    before = git(repository, "rev-parse", "HEAD")
    commit(repository, 0.012)
    outcome = ended(repository, "--dlperf-against=HEAD~1", *how, hangs="/run3")
    judgement, against = outcome["judgement"], outcome["against"]
    assert judgement["reason"] == f"2 pairs with HEAD~1 were measured, {WHY}"
    assert judgement["change"] == pytest.approx(0.01 / 0.012 - 1, abs=0.05)
    assert against["commit"] == before
    runs, others = outcome["measurement"]["runs"], against["measurement"]["runs"]
    assert len(runs) == len(others) == 2
    assert [problem["code"] for problem in outcome["measurement"]["problems"]][-1] == "cut-short"
    # A file of pairs is none to go on from, and none to store
    assert repository.run(*ONLY, "--dlperf-resume=r.json").ret == 4
    baselines = f"--baselines={repository.path / 'baselines'}"
    assert main(["baselines", "accept", str(repository.path / "r.json"), baselines]) == 1
    assert repository.baselines() == {}


def test_one_pair_is_kept(repository: Suite):
    against = ("--dlperf-against=HEAD", QUICK)
    repository.write_file("other.py", "x = 2\n")
    repository.env(FAKE_IMPORTS="w.py,other.py")
    outcome = ended(repository, *against, hangs="/run2")
    assert outcome["judgement"]["reason"] == f"1 pair with HEAD was measured, {WHY}"


@pytest.mark.nightly  # the gate has its main way
def test_pairs_of_the_second_stage_are_kept_beside_the_runs(
    repository: Suite, monkeypatch: pytest.MonkeyPatch
):
    assert repository.run(*ONLY, "--update-baselines").ret == 0
    commit(repository, 0.012)
    outcome = ended(repository, QUICK, hangs="/run3", within="/pairs/")
    second = outcome["confirmation"]
    name = second["commit"][:7]
    count = len(outcome["measurement"]["runs"])
    assert outcome["judgement"]["reason"] == (
        f"{count} runs and 2 pairs with {name} were measured, {WHY}"
    )
    assert outcome["against"] is None
    assert len(second["measurement"]["runs"]) == 2
    assert len(second["against"]["measurement"]["runs"]) == 2
    assert second["pairs"]["verdict"] == "not-run"
    assert second["stored"]["verdict"] != "not-run"
    text = (repository.path / "c.md").read_text(encoding="utf-8")
    assert "1 of 1 case needed pairs: 2 pairs" in text

    # A later session goes on from the runs, and measures its pairs again
    monkeypatch.delenv("FAKE_HANG")
    (repository.path / "r.json").rename(repository.path / "before.json")
    _, outcomes = repository.outcomes(*ONLY, QUICK, "--dlperf-resume=before.json")
    again = outcomes[ONE]
    assert again["judgement"]["verdict"] == "regressed"
    assert len(again["confirmation"]["measurement"]["runs"]) >= 3
