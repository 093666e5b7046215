"""A repository that git refuses to look at is no folder without one."""

from __future__ import annotations

import pytest

from tests.helpers.fake_suite import Suite


@pytest.mark.slow
def test_storing_needs_a_reason_where_git_refuses(repository: Suite):
    """As in a container job, whose checkout belongs to another user."""
    repository.environment.update(
        GIT_TEST_ASSUME_DIFFERENT_OWNER="1", GIT_CONFIG_GLOBAL="/dev/null"
    )
    result, outcomes = repository.outcomes("--update-baselines", "-k1n1c")
    assert result.ret == 1
    assert repository.baselines() == {}
    [outcome] = outcomes.values()
    assert "the baseline was not written: " in outcome["judgement"]["reason"]
    assert outcome["checkout_problem"].startswith("fatal: detected dubious ownership")
    assert outcome["checkout_problem"] in outcome["judgement"]["reason"]
    result.stdout.fnmatch_lines(
        ["git does not say the commit *needs --dlperf-reason: fatal: detected dubious ownership*"]
    )
