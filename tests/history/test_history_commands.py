"""``dlperf history``: from a database to tables, sentences, files and commands."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_dlperf.report import json_, schemas
from pytest_dlperf.store.history.address import Address, parse_address
from pytest_dlperf.store.history.append import append
from tests.helpers.history_builders import case, commit, days, outcome, text, with_canary

pytest.importorskip("otava", reason="Apache Otava is not installed (tox env outputs)")

CASE = case().id


def found(capsys: Any, *arguments: str) -> Any:
    values = json.loads(text(capsys, *arguments, "--json"))
    jsonschema.validate(values, schemas.history_schema())
    return values


def test_the_schema_in_the_repository_is_that_of_the_types():
    """``python -m pytest_dlperf.report.schemas`` writes it again."""
    assert schemas.file_of("history").read_text(encoding="utf-8") == schemas.render("history")


def test_cases_are_listed_with_where_they_ran(here: Address, capsys: Any):
    first, *later = days(3)
    append(here, "s", [*later, *days(2, node="node2")])
    append(here, "sent later", [first])
    lines = text(capsys, "list").splitlines()
    assert lines[1].split() == [
        CASE, "8x-v100-sxm2-32gb", "node1", "3", "2026-09-01T02:00:00Z", "2026-09-03T02:00:00Z",
    ]  # fmt: skip
    values = found(capsys, "list")
    assert [(one["node"], one["outcomes"]) for one in values["cases"]] == [
        ("node1", 3), ("node2", 2),
    ]  # fmt: skip


def test_a_change_is_printed_with_its_commits(here: Address, capsys: Any):
    append(here, "s", days(90, changed_on=60))
    told = text(capsys, "changes")
    assert f"{CASE} on 8x-v100-sxm2-32gb, node1" in told
    assert "% slower: " in told
    assert "30 outcomes ago" in told
    assert f"after commit {commit(59)[:7]} up to {commit(60)[:7]}" in told
    assert "1 change in 1 series" in told
    [change] = found(capsys, "changes")["changes"]
    assert change["change"] == pytest.approx(-0.04, abs=0.006)


def test_a_machine_that_became_slower_is_named_beside_the_change(here: Address, capsys: Any):
    outcomes = days(60, changed_on=30)
    append(here, "s", (with_canary(o, 100.0 - 5 * (i >= 30)) for i, o in enumerate(outcomes)))
    told = text(capsys, "changes")
    assert "the machine changed as well, by its canary: matmul_gflop_per_s -5.0 %" in told


def test_a_series_shows_commits_remarks_and_where_it_changed(here: Address, capsys: Any):
    append(here, "s", [*days(40, changed_on=20), outcome(50, inject=0.05, dirty=True)])
    lines = text(capsys, "series", CASE, "--last=30").splitlines()
    assert lines[1] == "  11 earlier: --last=0 shows all"
    mark = next(i for i, line in enumerate(lines) if line.startswith("----"))
    assert lines[mark + 1].startswith(f"2026-09-21T02:00:00Z  {commit(20)[:7]} ")
    assert lines[-1].endswith("passed   injected")
    assert f"{commit(50)[:7]}+" in lines[-1]
    values = found(capsys, "series", "tsm-*")
    assert len(values["series"][0]["points"]) == 41
    assert values["left_out"] == {"injected": 1}


def test_csv_has_a_line_an_outcome_and_no_formula(here: Address, capsys: Any):
    append(here, "s", [outcome(1, commit="=cmd()"), outcome(2)])
    rows = list(csv.DictReader(io.StringIO(text(capsys, "export", "--csv=-"))))
    assert [row["time"] for row in rows] == ["2026-09-02T02:00:00Z", "2026-09-03T02:00:00Z"]
    assert rows[0]["commit"] == "'=cmd()"
    assert float(rows[0]["throughput"]) == 101.0
    text(capsys, "export", CASE, "--csv=sub/out.csv")
    assert len(Path("sub/out.csv").read_text().splitlines()) == 3


def test_results_files_are_imported_once(here: Address, capsys: Any):
    json_.write(Path("r.json"), list(days(3)))
    assert "3 new outcomes of 3" in text(capsys, "import", "r.json")
    assert "0 new outcomes of 3" in text(capsys, "import", "r.json")


def test_a_file_that_is_no_results_file_stops_before_anything_is_written(
    here: Address, capsys: Any
):
    json_.write(Path("r.json"), list(days(3)))
    Path("half.json").write_text(Path("r.json").read_text()[:1000])
    assert "half.json: not JSON" in text(capsys, "import", "r.json", "half.json", code=2)
    assert here.file is not None
    assert not here.file.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("series", "no-such-case"), "no outcome of no-such-case fits"),
        (("bisect", CASE), "has 0 changes in 1 series"),
        (("list", "--history=none.sqlite"), "none.sqlite: there is no history yet"),
        (("list", "--history=mysql://host/db"), "mysql is not supported"),
        (("list", "--history=off"), "names no history"),
        (("changes", "--min-change=3"), "write 3% instead"),
    ],
)
def test_what_cannot_be_meant_is_an_error(
    arguments: tuple[str, ...], words: str, here: Address, capsys: Any
):
    append(here, "s", days(5))
    assert words in text(capsys, *arguments, code=2)


def test_the_environment_names_the_history(
    here: Address, capsys: Any, monkeypatch: pytest.MonkeyPatch
):
    append(parse_address("team.sqlite", folder=Path.cwd(), what="test"), "s", days(4))
    monkeypatch.setenv("DLPERF_HISTORY", "team.sqlite")
    assert found(capsys, "list")["cases"][0]["outcomes"] == 4


def test_bisect_prints_commands_that_settle_it(here: Address, capsys: Any):
    append(here, "s", days(60, changed_on=30))
    commands = found(capsys, "bisect", CASE)["bisection"]["commands"]
    assert commands[0] == f"git bisect start {commit(30)} {commit(29)}"
    assert commands[1].startswith(
        f"git bisect run dlperf history bisect-step --against={commit(29)} --limit=2"
    )
    test = f"perf_tests/test_net.py::test_net[{CASE}]"
    assert commands[1].endswith(f" -- '{test}' --dlperf-size=full --gpus=8")
    assert commands[2] == "git bisect reset"
    for command in commands:
        assert f"  {command}\n" in text(capsys, "bisect", CASE) + "\n"


def test_a_speed_up_is_bisected_from_the_fast_side(here: Address, capsys: Any):
    append(here, "s", days(60, changed_on=30, change=0.05))
    start, run, _ = found(capsys, "bisect", CASE)["bisection"]["commands"]
    assert start.startswith(f"git bisect start --term-old=slow --term-new=fast {commit(30)} ")
    assert f"--against={commit(30)} " in run
    assert " --faster -- 'perf_tests/" in run


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"commit": ""}, "an outcome next to the change has no commit"),
        ({"commit": "c" * 40}, "commit ccccccc has both levels"),
        ({"node_id": ""}, "the history does not record which test measured the case"),
    ],
)
def test_where_no_commit_made_it_there_is_nothing_to_bisect(
    fields: dict[str, str], words: str, here: Address, capsys: Any
):
    append(here, "s", days(60, changed_on=30, **fields))
    values = found(capsys, "bisect", CASE)
    assert values["bisection"]["commands"] == []
    assert f"nothing to bisect: {words}" in text(capsys, "bisect", CASE)


def test_a_step_that_is_wrongly_called_ends_the_bisection():
    """git takes exit code 2 for a slow commit, and 128 and above for an end."""
    step = ["dlperf", "history", "bisect-step"]
    for words in (
        ("--against=b", "--", "test"),
        ("--against=b", "--limit=3", "--", "test"),
        ("--against=b", "--limit=3%", "--no-such-option", "--", "test"),
    ):
        assert subprocess.run([*step, *words], check=False).returncode == 129
