"""``dlperf history`` without its extra."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from pytest_dlperf.cli import history
from pytest_dlperf.cli.parser import Command

#: One call of each action that reads or writes a history.
ACTIONS = (
    ("list",),
    ("series", "x"),
    ("show", "x"),
    ("changes",),
    ("bisect", "x"),
    ("send",),
    ("import", "r.json"),
    ("export", "--csv=-"),
    ("export", "--html=h.html"),
    ("site", "s"),
    ("list", "--history=postgresql://u@h/d"),
)
#: Imports of these fail as where they are not installed; then each call, and what came of it.
PROGRAM = """
import contextlib, io, json, sys
sys.modules.update(dict.fromkeys(["sqlalchemy", "otava", "psycopg"]))
from pytest_dlperf import cli
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as told:
        code = cli.main(["history", *words])
    print(json.dumps([code, told.getvalue()]))
"""


def test_every_action_says_what_is_missing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, json.dumps(ACTIONS)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    for words, line in zip(ACTIONS, done.stdout.splitlines(), strict=True):
        code, told = json.loads(line)
        assert code == 2, (words, told)
        assert told.startswith("dlperf: dlperf history needs SQLAlchemy"), (words, told)
        assert "pip install 'pytest-dlperf[history]'" in told, words
        assert len(told.splitlines()) == 1, (words, told)


def test_no_action_is_left_out() -> None:
    parser = Command(prog="dlperf history")
    history.add_arguments(parser)
    [actions] = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    # It measures, and reads no history
    assert {words[0] for words in ACTIONS} == set(actions.choices) - {"bisect-step"}
