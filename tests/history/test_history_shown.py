"""What commands show of a history: nothing steers a terminal, and every change has its place."""

from __future__ import annotations

import csv
import io
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.store.history.address import Address, parse_address
from pytest_dlperf.store.history.append import append
from tests.helpers.history_builders import case, days, outcome, text

CASE = case().id
NASTY = "n\x1b[2J\x07\r\u202e\nx"


@pytest.mark.parametrize("command", ["list", "series", "changes", "bisect"])
def test_no_name_steers_the_terminal(command: str, here: Address, capsys: Any):
    pytest.importorskip("otava", reason="Apache Otava is not installed (tox env outputs)")
    old, new = ({"software": {"torch": f"{NASTY}{n}"}} for n in "12")
    first, later = (
        days(40, changed_on=20, node=NASTY, commit=f"{NASTY}{n}", **software)
        for n, software in (("1", old), ("2", new))
    )
    append(here, "s", [*list(first)[:20], *list(later)[20:]])
    told = text(capsys, command, *([] if command == "list" else [CASE]))
    steers = {c for c in told if c != "\n" and unicodedata.category(c) in {"Cc", "Cf"}}
    assert steers == set()
    assert "\\x1b" in told
    assert "\\u202e" in told
    assert not any(line.startswith("x") for line in told.splitlines())


def test_chinese_names_keep_the_columns(here: Address, capsys: Any):
    append(here, "s", [*days(2, node="节点一"), *days(2, node="node1")])
    one, other = (line for line in text(capsys, "list").splitlines() if CASE in line)
    if "节" in one:
        one, other = other, one
    assert one.index(" 2  2026") == other.index(" 2  2026") + 3


def test_csv_shows_control_characters_and_guards_text_alone(here: Address, capsys: Any):
    judged = outcome(1, node=NASTY, commit="@sum")
    fallen = replace(judged.judgement.throughput, change=-0.04)
    append(here, "s", [replace(judged, judgement=replace(judged.judgement, throughput=fallen))])
    [row] = csv.DictReader(io.StringIO(text(capsys, "export", "--csv=-")))
    assert row["node"] == "n\\x1b[2J\\x07\\x0d\\u202e\\nx"
    assert row["commit"] == "'@sum"
    assert row["change"] == "-0.04"


def test_changes_of_rows_that_are_not_shown_are_counted(here: Address, capsys: Any):
    pytest.importorskip("otava", reason="Apache Otava is not installed (tox env outputs)")
    append(here, "s", days(40, changed_on=20))
    lines = text(capsys, "series", CASE, "--last=10").splitlines()
    assert lines[1] == "  30 earlier, with 1 change of the level: --last=0 shows all"
    assert not any(line.startswith("----") for line in lines)


def test_a_change_is_marked_once_where_two_outcomes_have_one_time(here: Address, capsys: Any):
    pytest.importorskip("otava", reason="Apache Otava is not installed (tox env outputs)")
    outcomes = list(days(40, changed_on=20))
    # Injected: in the series, and no part of the level
    twin = outcome(20, inject=0.05, elapsed_s=1.0)
    append(here, "s", [*outcomes, twin])
    lines = text(capsys, "series", CASE).splitlines()
    assert sum(line.startswith("----") for line in lines) == 1


def test_a_rate_of_nothing_hides_no_change(here: Address, capsys: Any):
    pytest.importorskip("otava", reason="Apache Otava is not installed (tox env outputs)")
    append(here, "s", [*days(40, changed_on=20), outcome(41, rates=(0.0,))])
    assert "1 change in 1 series" in text(capsys, "changes")


@pytest.mark.parametrize(
    ("since", "outcomes"),
    [
        ("2026-09-03", 3),
        ("2026-09-03T02:00:00Z", 3),
        ("2026-09-03T04:00:00+02:00", 3),
        ("2026-09-03T02:00:01+00:00", 2),
        ("2026-09-02T22:00:01-04:00", 2),
    ],
)
def test_since_is_a_time_wherever_its_clock_is(
    since: str, outcomes: int, here: Address, capsys: Any
):
    append(here, "s", days(5))
    lines = text(capsys, "export", f"--since={since}", "--csv=-").splitlines()
    assert len(lines) == 1 + outcomes


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("series", CASE, "--since=yesterday"), "--since: 'yesterday' is not a time"),
        (("series", CASE, "--since=2026-13-01"), "is not a time"),
        (("series", CASE, "--since=0001-01-01T00:00:00+10:00"), "is not a time"),
        (("series", CASE, "--since=2026-09-03T02:00"), "has no offset"),
        (("series", CASE, "--last=-5"), "--last=-5: give a whole number, 0 or more"),
        (("series", CASE, "--last=x"), "--last=x: give a whole number, 0 or more"),
    ],
)
def test_what_is_no_time_or_number_is_an_error(
    arguments: tuple[str, ...], words: str, here: Address, capsys: Any
):
    append(here, "s", days(5))
    assert words in text(capsys, *arguments, code=2)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pytest.ini", "[pytest]\ndlperf_history = team.sqlite\n"),
        ("pyproject.toml", "[tool.pytest.ini_options]\ndlperf_history = 'team.sqlite'\n"),
        ("tox.ini", "[pytest]\ndlperf_history = team.sqlite\n"),
        ("setup.cfg", "[tool:pytest]\ndlperf_history = team.sqlite\n"),
    ],
)
def test_the_ini_file_names_the_history_from_folders_below_as_well(
    name: str, content: str, here: Address, capsys: Any, monkeypatch: pytest.MonkeyPatch
):
    append(parse_address("team.sqlite", folder=Path.cwd(), what="test"), "s", days(4))
    Path(name).write_text(content)
    # Says nothing to pytest, and so hides no folder above
    Path("sub").mkdir()
    Path("sub/setup.cfg").write_text("[metadata]\nname = x\n")
    monkeypatch.chdir("sub")
    assert f"{CASE}  " in text(capsys, "list")
    monkeypatch.setenv("DLPERF_HISTORY", "other.sqlite")
    assert "other.sqlite: there is no history yet" in text(capsys, "list", code=2)


def test_an_ini_file_that_cannot_be_read_is_named(here: Address, capsys: Any):
    Path("pyproject.toml").write_text("[tool.pytest")
    assert "pyproject.toml: cannot be read" in text(capsys, "list", code=2)


def test_a_file_that_is_imported_again_is_not_packed_again(
    here: Address, capsys: Any, monkeypatch: pytest.MonkeyPatch
):
    from pytest_dlperf.report import json_
    from pytest_dlperf.store.history import append as appending

    json_.write(Path("r.json"), list(days(3)))
    assert "3 new outcomes of 3" in text(capsys, "import", "r.json")
    monkeypatch.delattr(appending, "record_of")
    monkeypatch.delattr(json_, "render")
    assert "0 new outcomes of 3" in text(capsys, "import", "r.json")
