"""A creep over several commits, with a fake launcher: pairs with the anchor's commit decide."""

from __future__ import annotations

import json
import sys

import pytest

from tests.helpers.fake_repository import ONE, commit, git
from tests.helpers.fake_suite import Suite

pytestmark = pytest.mark.slow  # many sessions; .ci/run has them

#: Of sessions that are judged once, in few runs.
THREE = ("-k", "1n1c", "--dlperf-runs=3", "--dlperf-explain=never")


@pytest.fixture
def crept(repository: Suite) -> Suite:
    """Four commits were stored, each slower by 1.5 %; a fifth is to be measured."""
    result = repository.run(*THREE, "--update-baselines")
    assert result.ret == 0, result.stdout.str()
    [file] = repository.path.glob(f"baselines/*/*/{ONE}.json")
    stored = json.loads(file.read_text(encoding="utf-8"))
    [first] = stored["sessions"]
    for number in range(1, 4):
        slower = 1.015**number
        later = {
            "time": f"{first['time'][:10]}T23:59:5{number}Z",
            "commit": commit(repository, 0.01 * slower),
            "runs": [rate / slower for rate in first["runs"]],
            "estimates": {
                name: [rate / slower for rate in rates]
                for name, rates in first["estimates"].items()
            },
        }
        stored["sessions"].append(first | later)
    file.write_text(json.dumps(stored), encoding="utf-8")
    commit(repository, 0.0105)
    return repository


@pytest.mark.nightly  # the gate has its main way
def test_a_creep_is_red_by_pairs_with_the_anchor_until_its_level_is_accepted(crept: Suite):
    anchor = crept.baselines()[ONE]["anchor"]["commit"]
    # Where its code cannot run any more, pairs with the last session decide
    crept.env(FAKE_FAIL="*/anchor/*")
    _, outcomes = crept.outcomes(*THREE)
    assert outcomes[ONE]["judgement"]["verdict"] == "passed"
    assert "no pairs with the anchor: " in outcomes[ONE]["judgement"]["reason"]
    assert outcomes[ONE]["confirmation"]["stored"]["verdict"] == "inconclusive"
    assert outcomes[ONE]["confirmation"]["anchor"] is False
    assert outcomes[ONE]["confirmation"]["commit"] == git(crept, "rev-parse", "HEAD~1")
    crept.env(FAKE_FAIL="")
    [file] = crept.path.glob(f"baselines/*/*/{ONE}.json")
    kept = file.read_text(encoding="utf-8")
    file.write_text(kept.replace(anchor, "0" * 40), encoding="utf-8")
    _, outcomes = crept.outcomes(*THREE)
    assert outcomes[ONE]["judgement"]["verdict"] == "passed"
    assert (
        "no pairs with the anchor: this clone has no commit 0000000"
        in outcomes[ONE]["judgement"]["reason"]
    )
    assert outcomes[ONE]["confirmation"]["anchor"] is False
    file.write_text(kept, encoding="utf-8")
    result, outcomes = crept.outcomes(*THREE)
    outcome = outcomes[ONE]
    assert result.ret == 1, result.stdout.str()
    assert outcome["judgement"]["verdict"] == "regressed"
    assert outcome["judgement"]["change"] == pytest.approx(-0.048, abs=0.01)
    assert f"side by side with the anchor {anchor[:7]}" in outcome["judgement"]["reason"]
    confirmation = outcome["confirmation"]
    assert confirmation["stored"]["verdict"] != "regressed"
    assert (confirmation["anchor"], confirmation["commit"]) == (True, anchor)
    assert confirmation["against"]["commit"] == anchor
    accept = (sys.executable, "-m", "pytest_dlperf.cli", "baselines", "accept", crept.results)
    accepted = crept.pytester.run(*accept, "--anchor", "--reason=it does more")
    assert accepted.ret == 0, accepted.stdout.str()
    [stored] = crept.baselines().values()
    assert stored["anchor"]["commit"] == git(crept, "rev-parse", "HEAD")
    commit(crept, 0.01055)
    result, outcomes = crept.outcomes(*THREE)
    assert result.ret == 0, result.stdout.str()
    assert outcomes[ONE]["judgement"]["verdict"] == "passed"
    assert outcomes[ONE]["confirmation"]["anchor"] is False
