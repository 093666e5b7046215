"""``dlperf report``: files in, report out, on standard output or into a file."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

from pytest_dlperf.cli import main
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.report import json_
from pytest_dlperf.report.page import session_page
from pytest_dlperf.store.baseline.store import BaselineStore
from tests.helpers.report_builders import case, environment, measured, published, unmeasured

TORCH = measured(case("torch", "1n8g"), 385.0, alone=55.0)
PADDLE = measured(
    case("paddle", "1n8g"), 550.0, alone=80.0, environment=environment("paddle", "2.6.2")
)
TENSORFLOW = unmeasured(case("tensorflow", "1n8g"), Verdict.NOT_RUN, "没有安装 tensorflow")


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def results(path: Path, *outcomes: Outcome) -> str:
    json_.write(path, outcomes)
    return str(path)


def test_shards_of_three_frameworks_make_one_table(tmp_path, capsys):
    files = [
        results(tmp_path / "torch.json", TORCH, TENSORFLOW),
        results(tmp_path / "paddle.json", PADDLE),
    ]
    assert main(["report", *files]) == 0
    out = capsys.readouterr().out
    assert "framework      torch 2.13.0" in out
    assert "framework      paddle 2.6.2" in out
    lines = out.splitlines()
    row = next(line for line in lines if "1n8g" in line and "16" in line.split())
    assert row.split() == ["8", "1n8g", "16", "385.0", "7.00", "--[2]", "--[2]", "550.0", "6.88"]
    assert "[2] not-run: 没有安装 tensorflow" in lines
    # One device was measured for the speedup.
    row = next(line for line in lines if "1n1g" in line)
    assert row.split() == ["1", "1n1g", "16", "55.00", "1.00", "--[1]", "--[1]", "80.00", "1.00"]
    assert not out.endswith("\n\n")


def test_shards_make_one_comment(tmp_path, capsys):
    files = [
        results(tmp_path / "torch.json", TORCH, TENSORFLOW),
        results(tmp_path / "paddle.json", PADDLE),
    ]
    assert main(["report", *files, "--format=comment", "-o", "c.md"]) == 0
    assert capsys.readouterr().out == ""
    text = (tmp_path / "c.md").read_text(encoding="utf-8")
    assert text.startswith("<!-- pytest-dlperf: ")
    assert "3 cases: 1 not-run, 2 passed; 1 NOT JUDGED" in text
    assert "没有安装 tensorflow" in text


def test_three_frameworks_as_text_and_as_html(tmp_path, capsys):
    third = measured(
        case("tensorflow", "1n8g"),
        300.0,
        alone=40.0,
        environment=environment("tensorflow", "2.15.1"),
        conditions_={"window": (200, 700)},
    )
    file = results(tmp_path / "all.json", TORCH, PADDLE, third)
    BaselineStore(tmp_path / "baselines").write(published(case("paddle", "1n8g"), 549.176))
    assert main(["report", file]) == 0
    figures = ["385.0", "7.00", "--", "550.0", "6.88", "549.176[2]", "300.0[1]", "7.50", "--"]
    lines = capsys.readouterr().out.splitlines()
    assert ["8", "1n8g", "16", *figures] in [line.split() for line in lines]
    told = "measured iterations: 200 to 700 here, 50 to 150 in the other cells of this table"
    assert f"[1] {told}" in lines

    assert main(["report", file, "-o", "all.html"]) == 0
    page = (tmp_path / "all.html").read_text(encoding="utf-8")
    for framework in ("torch", "paddle", "tensorflow"):
        assert f'<th scope="col" class=n>{framework} samples/s</th>' in page
    assert '<td class=n>300.0<sup><a href="#note1">1</a></sup></td><td class=n>7.50</td>' in page
    assert f'<li id="note1" dir="auto">{told}</li>' in page


def test_the_same_outcome_given_twice_counts_once(tmp_path, capsys):
    file = results(tmp_path / "torch.json", TORCH)
    assert main(["report", file, file]) == 0
    assert "the latest of" not in capsys.readouterr().out


def test_published_numbers_come_from_the_baselines_folder(tmp_path, capsys):
    file = results(tmp_path / "torch.json", TORCH)
    BaselineStore(tmp_path / "elsewhere").write(published(case("torch", "1n8g"), 390.125))
    assert main(["report", file]) == 0
    assert "390.125" not in capsys.readouterr().out
    assert main(["report", file, "--baselines=elsewhere"]) == 0
    assert "390.125[1]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "begin"),
    [("r.html", "<!DOCTYPE html>"), ("r.md", "# Training"), ("r.txt", "Training performance")],
)
def test_the_name_of_the_file_says_its_format(tmp_path, capsys, name, begin):
    assert main(["report", results(tmp_path / "r.json", TORCH, TENSORFLOW), "-o", name]) == 0
    assert capsys.readouterr().out == ""
    made = (tmp_path / name).read_text(encoding="utf-8")
    assert made.startswith(begin)
    assert "没有安装 tensorflow" in made


def test_html_is_the_page_of_the_session_whatever_baselines_are_here(tmp_path, capsys):
    file = results(tmp_path / "r.json", TORCH, TENSORFLOW)
    BaselineStore(tmp_path / "baselines").write(published(case("torch", "1n8g"), 390.125))
    assert main(["report", file, "--html=page.html"]) == 0
    assert capsys.readouterr().out == ""
    made = (tmp_path / "page.html").read_text(encoding="utf-8")
    # What the session had, which the results file holds whole
    assert made == session_page.render([TORCH, TENSORFLOW])
    assert main(["report", file, "--html=page.html", "--baselines=baselines"]) == 0
    assert "390.125" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_format_goes_before_the_name(tmp_path, capsys):
    file = results(tmp_path / "r.json", TORCH)
    assert main(["report", file, "--format=md"]) == 0
    assert capsys.readouterr().out.startswith("# Training performance by framework\n")


def test_json_has_numbers_and_nulls(tmp_path, capsys):
    file = results(tmp_path / "r.json", TORCH, TENSORFLOW)
    assert main(["report", file, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    schema = files("pytest_dlperf.report").joinpath("comparison.schema.json").read_text("utf-8")
    jsonschema.Draft202012Validator(json.loads(schema)).validate(values)
    assert (values["format"], values["field"]) == (1, "framework")
    assert values["environments"][0]["facts"]["image"] is None
    alone, row = values["tables"][0]["rows"]
    assert [cell["throughput"] for cell in alone["cells"]] == [55.0, None]
    torch, tensorflow = row["cells"]
    assert (torch["throughput"], torch["speedup"]) == (385.0, 7.0)
    assert (tensorflow["throughput"], tensorflow["speedup"]) == (None, None)
    assert tensorflow["notes"] == ["not-run: 没有安装 tensorflow"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.json"], "missing.json: No such file"),
        (["empty.json"], "hold no outcome"),
        (["half.json"], "half.json: not JSON"),
        (["half.json", "--html=page.html"], "half.json: not JSON"),
        (["nothing.json", "--html=page.html"], "nothing.json: not JSON (the file is empty)"),
        (["torch.json", "--html=page.html", "--json"], "--html writes a page"),
        (["other.json"], "other.json: "),
        (["torch.json", "half.json", "-o", "page.html"], "half.json: not JSON"),
        (["torch.json", "--compare=colour"], "no outcome records 'colour'"),
        (["torch.json", "--baselines=nowhere"], "nowhere is not a directory"),
        (["torch.json", "-o", "no/folder.html"], "cannot be written"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(tmp_path, capsys, arguments, said):
    results(tmp_path / "torch.json", TORCH)
    results(tmp_path / "empty.json")
    whole = (tmp_path / "torch.json").read_text(encoding="utf-8")
    (tmp_path / "half.json").write_text(whole[: len(whole) // 2], encoding="utf-8")
    (tmp_path / "nothing.json").write_text("", encoding="utf-8")
    (tmp_path / "other.json").write_text('{"benchmarks": []}', encoding="utf-8")
    assert main(["report", *arguments]) == 2
    assert not (tmp_path / "page.html").exists()
    streams = capsys.readouterr()
    assert streams.out == ""
    assert said in streams.err
    assert streams.err.count("\n") == 1
