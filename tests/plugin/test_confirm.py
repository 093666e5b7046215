"""Pairs decide what stored sessions leave open, with a fake launcher; real ones in tests/torch."""

from __future__ import annotations

import pytest

from tests.helpers.fake_repository import ONE, commit, git
from tests.helpers.fake_suite import Suite

pytestmark = pytest.mark.slow

ONLY = ("-k", "1n1c")


@pytest.fixture
def stored(repository: Suite) -> Suite:
    """One session is stored, of the commit that is checked out."""
    result = repository.run(*ONLY, "--update-baselines")
    assert result.ret == 0, result.stdout.str()
    return repository


def test_code_that_is_slower_is_red_by_pairs(stored: Suite):
    before = git(stored, "rev-parse", "HEAD")
    commit(stored, 0.0107)
    result, outcomes = stored.outcomes(*ONLY)
    outcome = outcomes[ONE]
    assert result.ret == 1
    assert outcome["judgement"]["verdict"] == "regressed"
    assert outcome["judgement"]["change"] == pytest.approx(-0.065, abs=0.01)
    confirmation = outcome["confirmation"]
    assert confirmation["commit"] == confirmation["against"]["commit"] == before
    assert confirmation["pairs"]["verdict"] == "regressed"
    assert "than stored; side by side with" in outcome["judgement"]["reason"]
    assert outcome["against"] is None


def test_the_code_of_the_stored_session_is_never_red(stored: Suite):
    """The machine is slower: every launch is, whatever its code."""
    stored.env(FAKE_MACHINE=2)
    log = stored.path / "launches"
    stored.env(FAKE_LOG=log)
    result, outcomes = stored.outcomes(*ONLY, "--dlperf-strict")
    assert result.ret == 0, result.stdout.str()
    outcome = outcomes[ONE]
    assert outcome["judgement"]["verdict"] == "passed"
    assert outcome["confirmation"]["same_code"] is True
    assert "the machine or its settings did it" in outcome["judgement"]["reason"]
    assert outcome["confirmation"]["pairs"] is None


def test_code_that_no_commit_has_leaves_no_pair_possible(stored: Suite):
    stored.env(FAKE_IMPORTS="w.py", FAKE_OUTSIDE="/srv/models/net.py", FAKE_MACHINE=2)
    result, outcomes = stored.outcomes(*ONLY)
    outcome = outcomes[ONE]
    assert result.ret == 1
    assert outcome["judgement"]["verdict"] == "regressed"
    assert "ranks import /srv/models/net.py" in outcome["confirmation"]["impossible"]
    assert outcome["confirmation"]["pairs"] is None
