"""A page of the documents is read in minutes: its length, its first words and its paragraphs."""

from __future__ import annotations

import re

import pytest

from tests.helpers.documents import ROOT

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("docs", "guides")
    for path in (ROOT / folder).rglob("*.md")
    if "_build" not in path.parts
)
CODE = re.compile(r"^( *)(`{3,}).*?^\1\2$|^<!--.*?-->$", re.MULTILINE | re.DOTALL)
#: An empty line, and the begin of an item or a heading.
BORDER = re.compile(r"\n\s*\n|\n(?= *(?:- |\d+\. |#))")


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs, items and headings of a page, without code and tables."""
    lines = CODE.sub("", text).splitlines()
    prose = ("" if line.lstrip().startswith("|") else line for line in lines)
    return [part.strip() for part in BORDER.split("\n".join(prose)) if part.strip()]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_read_in_minutes(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert len(text.split()) <= 1600
    assert {part for part in paragraphs(text) if len(part.split()) > 110} == set()


@pytest.mark.parametrize("page", PAGES)
def test_a_page_begins_with_its_title_and_a_paragraph(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    if "```{include}" not in text:
        title, *rest = text.splitlines()
        first = next(filter(None, rest), "")
        assert title.startswith("# ")
        assert not first.startswith(("#", "|", "- ", "1. ", "```")), first


def test_what_a_paragraph_is() -> None:
    text = "# A title\nOne.\nTwo.\n| a | b |\n\n- three\n  and four\n- five\n```python\nsix\n```\n"
    assert paragraphs(text) == ["# A title\nOne.\nTwo.", "- three\n  and four", "- five"]
