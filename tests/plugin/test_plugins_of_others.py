"""Plugins that repeat, rerun or end tests: a case has one outcome all the same."""

from __future__ import annotations

import pytest

from tests.helpers.fake_suite import Suite

# Many sessions; the env plugin has those plugins
pytestmark = pytest.mark.slow


def test_repetition_is_a_matter_of_runs(suite: Suite):
    result = suite.run("--count=2")
    assert result.ret == 4
    assert "--dlperf-runs=N measures a case N times" in result.stderr.str()
