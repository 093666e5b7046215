"""Without the extra ``history``: nothing is said, unless a history was asked for by name."""

from __future__ import annotations

import pytest

from tests.helpers.fake_suite import Suite


@pytest.fixture
def without(suite: Suite) -> Suite:
    """Sessions in which a module of that name cannot be found."""
    suite.pytester.makepyfile(
        missing="import os, sys\n"
        "sys.modules.update(dict.fromkeys(os.environ['MISSING'].split(',')))\n"
    )
    suite.env(PYTEST_ADDOPTS="-p no:hypothesispytest -p missing", MISSING="sqlalchemy,psycopg")
    suite.env(PYTHONPATH=f"{suite.path}:{suite.path}/site")
    return suite


@pytest.mark.slow
def test_nothing_is_said_where_nobody_asked(without: Suite):
    result = without.run("-k", "1n1c")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*history*")


@pytest.mark.slow
def test_asked_for_by_name_it_is_an_error_before_anything_runs(without: Suite):
    history = "postgresql://me:geheim@host/db"
    result = without.run("-k", "1n1c", f"--dlperf-history={history}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    words = "sqlalchemy is not installed; pip install *postgresql*"
    result.stderr.fnmatch_lines([f"ERROR: pytest-dlperf: --dlperf-history: {words}"])
    assert "geheim" not in result.stderr.str() + result.stdout.str()
