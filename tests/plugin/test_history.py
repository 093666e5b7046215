"""A session's outcomes in its history: by itself, by name, not at all, and where it is away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.helpers.fake_suite import Suite

pytest.importorskip("sqlalchemy", reason="the extra history is not installed (tox env outputs)")

from pytest_dlperf.core.command_results import Point
from pytest_dlperf.store.history.address import parse_address
from pytest_dlperf.store.history.database import reading
from pytest_dlperf.store.history.query import series_of

pytestmark = [pytest.mark.slow, pytest.mark.history]  # many sessions; .ci/run has them


ONE, TWO = "net-torch-fp32-bs4-1n1c", "net-torch-fp32-bs4-1n2c"


@pytest.fixture(autouse=True)
def unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DLPERF_HISTORY", raising=False)


def stored(history: str = ".dlperf/history.sqlite") -> dict[str, Sequence[Point]]:
    """Return the points of each case."""
    with reading(parse_address(history, folder=Path.cwd(), what="test")) as connection:
        return {series.case_id: series.points for series in series_of(connection)}


def session(suite: Suite, *arguments: str) -> pytest.RunResult:
    """Run the cases, once each: what they measure does not matter here."""
    return suite.run("--dlperf-runs=1", *arguments)


def away(suite: Suite) -> None:
    """Let ``team.sqlite`` be what cannot be written to."""
    (suite.path / "team.sqlite").write_text("not a database, and long enough to be looked at" * 30)


def unsent(suite: Suite) -> list[Path]:
    return sorted(suite.path.glob(".dlperf/unsent/*"))


def test_sessions_are_added_to_a_file_of_the_working_folder(suite: Suite):
    first = session(suite)
    first.stdout.fnmatch_lines(
        [f"history: 2 outcomes added to {suite.path}/.dlperf/history.sqlite"]
    )
    session(suite, "-k", "1n1c", "--dlperf-inject=20%", "--dlperf-mode=observe")
    points = stored()
    assert [(p.mode, p.left_out) for p in points[ONE]] == [
        ("gate", ""), ("observe", "injected"),
    ]  # fmt: skip
    assert len(points[TWO]) == 1
    assert unsent(suite) == []


def test_under_xdist_the_controller_adds_each_outcome_once(suite: Suite):
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    session(suite, "-n2").stdout.fnmatch_lines(["history: 2 outcomes added to *"])
    assert {case: len(points) for case, points in stored().items()} == {ONE: 1, TWO: 1}


def test_a_history_that_is_named_is_taken_and_off_is_none(suite: Suite):
    """By the option here; by what else, and what is no address, in tests/unit/session."""
    suite.env(DLPERF_HISTORY="postgresql://nobody@/none")
    named = session(suite, "-k", "1n1c", "--dlperf-history=sub/team.sqlite")
    named.stdout.fnmatch_lines(["history: 1 outcome added to *team.sqlite"])
    off = session(suite, "-k", "1n1c", "--dlperf-history=off")
    off.stdout.no_fnmatch_line("history*")
    assert len(stored("sub/team.sqlite")[ONE]) == 1
    assert not (suite.path / ".dlperf/history.sqlite").exists()


def test_where_it_is_away_outcomes_are_kept_and_the_next_session_sends_them(suite: Suite):
    away(suite)
    result = session(suite, "--dlperf-history=team.sqlite")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["history NOT written: *team.sqlite: file is not a database; 2 outcomes kept in "
         "*/.dlperf/unsent: the next session sends them, or dlperf history send"]
    )  # fmt: skip
    assert len(unsent(suite)) == 1
    (suite.path / "team.sqlite").unlink()
    back = session(suite, "-k", "1n1c", "--dlperf-history=team.sqlite")
    back.stdout.fnmatch_lines(
        ["history: 1 outcome added to *team.sqlite; and 1 session that had waited"]
    )
    assert unsent(suite) == []
    points = stored("team.sqlite")
    assert (len(points[ONE]), len(points[TWO])) == (2, 1)


def test_strict_fails_where_it_was_not_written(suite: Suite):
    away(suite)
    arguments = ("-k", "1n1c", "--dlperf-history=team.sqlite", "--dlperf-strict")
    result = session(suite, *arguments, "--update-baselines")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["history NOT written: *: exit code 1"])


def test_where_it_can_neither_be_written_nor_kept_the_session_fails(suite: Suite):
    (suite.path / ".dlperf").mkdir()
    (suite.path / ".dlperf/unsent").write_text("")
    away(suite)
    result = session(suite, "-k", "1n1c", "--dlperf-history=team.sqlite")
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    result.stdout.fnmatch_lines(["history NOT written: *; nor kept: *File exists"])


def test_a_newer_history_is_left_as_it_is_and_the_outcomes_are_kept(suite: Suite):
    import sqlite3

    session(suite, "-k", "1n1c")
    path = suite.path / ".dlperf/history.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE dlperf_schema SET version = 9")
    connection.close()
    before = path.read_bytes()
    result = session(suite, "-k", "1n1c")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["history NOT written: *is of version 9*1 outcome kept in *"])
    assert path.read_bytes() == before
    assert len(unsent(suite)) == 1


def test_what_a_killed_session_measured_is_sent_by_the_next(suite: Suite):
    suite.write(
        """
        import pathlib, pytest, time

        @pytest.mark.dlperf("w:build", launcher="torchrun", layout=["1n1c"],
                            batch_size_per_device=4)
        def test_net(dlperf):
            dlperf.run()

        def test_then_waits():
            if not pathlib.Path("go").exists():
                time.sleep(60)
        """
    )
    killed = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=suite.path, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    until = time.monotonic() + 60
    while not any(path.read_text().count("\n") == 2 for path in unsent(suite)):
        assert time.monotonic() < until
        time.sleep(0.05)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    (suite.path / "go").touch()
    session(suite).stdout.fnmatch_lines(["*1 outcome added*; and 1 session that had waited"])
    assert len(stored()[ONE]) == 2
    assert unsent(suite) == []


def test_a_password_is_in_no_output_and_no_file(suite: Suite):
    pytest.importorskip("psycopg", reason="the extra postgresql is not installed")
    suite.env(DLPERF_HISTORY=f"postgresql://me:geheim@/db?host={suite.path}")
    result = session(suite, "-k", "1n1c", "-v")
    result.stdout.fnmatch_lines(["history NOT written: postgresql://me:[*][*][*]@/db*"])
    assert "geheim" not in result.stdout.str() + result.stderr.str()
    files = [path for path in suite.path.rglob("*") if path.is_file()]
    assert len(unsent(suite)) == 1
    assert not any(b"geheim" in path.read_bytes() for path in files)


@pytest.mark.parametrize("how", ["option", "environment"])
def test_what_is_no_address_stops_before_anything_runs(suite: Suite, how: str):
    history, words = "mysql://me:geheim@host/db", "mysql is not supported"
    if how == "environment":
        suite.env(DLPERF_HISTORY=history)
    result = session(suite, *([f"--dlperf-history={history}"] if how == "option" else []))
    told = result.stdout.str() + result.stderr.str()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert words in told
    assert "INTERNALERROR" not in told
    assert "geheim" not in told
    assert not (suite.path / ".dlperf").exists()


def test_a_collection_alone_adds_nothing(suite: Suite):
    for option in ("--collect-only", "--dlperf-list", "--dlperf-dry-run"):
        session(suite, option).stdout.no_fnmatch_line("history*")
    assert not (suite.path / ".dlperf/history.sqlite").exists()
