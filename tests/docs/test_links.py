"""Links between documents, and documents that the code names, lead to a file and a heading.

Sphinx checks pages of the site, with the tables that are made from the code; this also checks
what is read in the repository alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.documents import ROOT
from tests.helpers.links import anchors, is_there, links, named_documents

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in (".", "docs", "guides", "benchmarks", "examples", "perf_tests", "baselines")
    for path in (ROOT / folder).glob("*.md" if folder == "." else "**/*.md")
    if "_build" not in path.parts
)
CODE = sorted(
    path
    for folder in ("pytest_dlperf", "perf_tests", "benchmarks", "tests", "docs")
    for path in (ROOT / folder).rglob("*.py")
    if path != Path(__file__)
)


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_document(page: str) -> None:
    path = ROOT / page
    assert not [target for target in links(path.read_text("utf-8")) if not is_there(target, path)]


def test_documents_that_the_code_names() -> None:
    named = {
        (path.relative_to(ROOT).as_posix(), target)
        for path in CODE
        for target in named_documents(path.read_text(encoding="utf-8"))
    }
    # A message of the package and one of a suite
    assert {target for _, target in named} >= {"docs/data.md", "docs/tensorflow.md"}
    assert not sorted(name for name in named if not is_there(name[1], ROOT / "README.md"))


@pytest.fixture
def page(tmp_path: Path) -> Path:
    (tmp_path / "other.md").write_text(
        "# Other\n## Of `code`, and [a link](x.md)!\n## Twice\n## Twice\n```\n# none\n```\n",
        "utf-8",
    )
    (tmp_path / "data.json").write_text("{}", "utf-8")
    path = tmp_path / "page.md"
    path.write_text("# The page\n*Made.*\n<!-- generated: schemas -->\n", "utf-8")
    return path


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("other.md", True),
        ("data.json", True),
        ("other.md#of-code-and-a-link", True),
        ("other.md#twice-1", True),
        ("#the-page", True),
        ("#outcomesschemajson", True),  # of the table that is made from the code
        ("missing.md", False),
        ("other.md#twice-2", False),
        ("other.md#none", False),
        ("#other", False),
        ("data.json#x", False),
    ],
)
def test_what_is_there(page: Path, target: str, expected: bool) -> None:
    assert is_there(target, page) is expected


def test_what_is_a_link() -> None:
    text = (
        '[a](a.md) ![b](b.png "B") [`c`](c.md#d) <img src="e.png">\n[f]: g.md\n'
        "[h](https://h.org) `[i](i.md)`\n```\n[j](j.md)\n```\n<!-- [k](k.md) -->\n"
    )
    assert sorted(links(text)) == ["a.md", "b.png", "c.md#d", "e.png", "g.md"]


def test_what_the_code_names() -> None:
    code = (
        '"read docs/data.md, or docs/howto/selftest.md#by-pairs, not PaddleVideo\'s docs/k400.md"'
    )
    assert named_documents(code) == ["docs/data.md", "docs/howto/selftest.md#by-pairs"]


def test_anchors_are_those_of_the_site() -> None:
    assert anchors("# A rate, 3 % up\n## `--dlperf-x`: why?\n") == {
        "a-rate-3--up",
        "--dlperf-x-why",
    }
