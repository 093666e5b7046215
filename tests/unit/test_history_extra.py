"""What skips without the extra history is marked, in a folder that the tox env with it runs."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.newest

ROOT = Path(__file__).parents[2]
ASKS = re.compile(r"(importorskip|find_spec)\(\"sqlalchemy\"")


def test_what_skips_without_the_history_runs_where_it_is():
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    [command] = re.findall(
        r"^!nightly: pytest (.*) -m \"history and not nightly\"",
        tox["testenv:outputs{,-nightly}"]["commands"],
        re.MULTILINE,
    )
    folders = [ROOT / folder for folder in command.split()]
    asking = [
        path
        for folder in ("unit", "plugin")
        for path in (ROOT / "tests" / folder).rglob("test_*.py")
        if ASKS.search(path.read_text(encoding="utf-8"))
    ]
    assert len(asking) > 3
    for path in asking:
        assert "mark.history" in path.read_text(encoding="utf-8"), path
        assert any(folder in path.parents for folder in folders), path
