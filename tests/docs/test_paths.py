"""What documents for maintainers name is there: files, and names in them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.documents import ROOT

GUIDES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "guides").glob("*.md"))
PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md", "docs/concepts/flow.md", *GUIDES)
#: A file or a folder in backticks; those of a reader's own have a part in brackets.
PATH = re.compile(r"`((?:[\w.-]+/)+|(?:[\w.-]+/)*[\w-][\w.-]*\.(?:py|md|toml))`")
NAME_IN = re.compile(r"`(\w+)` (?:of|in) `((?:[\w.-]+/)*[\w-]+\.py)`")
#: Made by who follows the document, or by a session.
MADE = {"cases.py", "framework.py", "baselines/"}


@cache
def files() -> tuple[Path, ...]:
    """Return the files and folders of the repository."""
    names = ("pytest_dlperf", "tests", "benchmarks", "docs", "guides", "perf_tests", "constraints")
    below = (path for name in names for path in (ROOT / name).rglob("*"))
    top = (path for path in ROOT.iterdir() if not path.name.startswith(".git"))
    return tuple(path for path in (*top, *below) if "__pycache__" not in path.parts)


def ending(name: str) -> list[Path]:
    """Return the files and folders whose path ends so."""
    return [path for path in files() if f"/{path.as_posix()}".endswith(f"/{name.rstrip('/')}")]


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_is_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert not [name for name in PATH.findall(text) if name not in MADE and not ending(name)]
    for name, file in NAME_IN.findall(text):
        written = (path.read_text(encoding="utf-8") for path in ending(file))
        assert any(re.search(rf"\b{name}\b", code) for code in written), (name, file)


@pytest.mark.parametrize("page", GUIDES)
def test_a_guide_is_read_in_minutes(page: str) -> None:
    assert len((ROOT / page).read_text(encoding="utf-8").split()) < 900
