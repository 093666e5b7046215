"""Every command that reads results refuses a damaged file in a sentence, with 2."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.cli import main
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.report import json_
from pytest_dlperf.session.case_record import CaseRecords
from pytest_dlperf.session.resumed import Resumed
from tests.helpers.report_builders import case, measured

COMMANDS = {
    "report": ("report", "r.json"),
    "judge": ("judge", "r.json", "r.json"),
    "nodes": ("nodes", "r.json"),
    "accept": ("baselines", "accept", "r.json", "--reason=x", "--baselines=b"),
    "import": ("history", "import", "r.json", "--history=h.sqlite"),
}
DEEP = "[" * 100_000


def changed(change: Callable[[dict[str, Any]], object]) -> str:
    values = json.loads(json_.render([measured(case("torch", "1n1c"), 100.0)]))
    change(values["outcomes"][0])
    return json.dumps(values)


def nested(depth: int) -> object:
    return json.loads("[" * depth + "]" * depth)


DAMAGED = {
    "deep": '{"outcomes": ' + DEEP,
    "rather deep": changed(lambda one: one["case"].update(options={"a": nested(400)})),
    "deep in a list": changed(lambda one: one.update(environment=nested(60))),
    "time": changed(lambda one: one.update(time="not a time")),
    "no time": changed(lambda one: one.update(time="")),
    "time beyond years": changed(lambda one: one.update(time="9999-12-31T23:59:59-23:59")),
    "another notation": changed(lambda one: one.update(time="20261127T100000")),
    "a number as time": changed(lambda one: one.update(time=7)),
    "no object": '{"format": 1, "outcomes": [[]], "packages": {}}',
    "a list of lists as judgement": changed(lambda one: one.update(judgement=[[1]])),
    "digits": changed(lambda one: one).replace("100.0", "1" * 5000, 1),
    "half": changed(lambda one: one)[:900],
    "no UTF-8": "\udcff\udcfe",
    "null": "null",
    "text": '"outcomes"',
}


@pytest.mark.parametrize("damage", DAMAGED)
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=pytest.mark.history if command == "import" else ())
        for command in COMMANDS
    ],
)
def test_a_sentence_and_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    damage: str,
    command: str,
):
    if command == "import" and find_spec("sqlalchemy") is None:
        pytest.skip("the extra history is not installed (tox env outputs)")
    monkeypatch.chdir(tmp_path)
    Path("r.json").write_text(DAMAGED[damage], encoding="utf-8", errors="surrogateescape")
    assert main(COMMANDS[command]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("dlperf: ")
    assert "Traceback" not in said.err
    assert len(said.err) < 2000


@pytest.mark.parametrize("damage", DAMAGED)
def test_resume_refuses_it(tmp_path: Path, damage: str):
    path = tmp_path / "r.json"
    path.write_text(DAMAGED[damage], encoding="utf-8", errors="surrogateescape")
    with pytest.raises(UsageError, match=r"--dlperf-resume"):
        Resumed(path, CaseRecords())
