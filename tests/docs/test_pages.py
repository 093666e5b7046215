"""A page of the documents is read in minutes: its length, first words, paragraphs and lines."""

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


#: What a line may have within its sentence: code, a link, brackets, and words set apart.
WITHIN = re.compile(r"`[^`]*`|\[[^\]]*\](?:\([^)]*\))?|\([^()]*\)|\*\*[^*]+\*\*|\"[^\"]*\"")
SENTENCE_ENDS = re.compile(r"[.!?] +(?=[A-Z~])")


def prose(text: str) -> list[str]:
    """Return the lines of a page; those of code and tables are empty."""
    lines = CODE.sub(lambda code: "\n" * code[0].count("\n"), text).splitlines()
    return ["" if line.lstrip().startswith("|") else line for line in lines]


def sentences(line: str) -> list[str]:
    """Return the sentences of a line, without what is within them."""
    return SENTENCE_ENDS.split(re.sub(r"^ *(?:#+ )?(?:- |\d+\. )?", "", WITHIN.sub("~", line)))


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs, items and headings of a page, without code and tables."""
    return [part.strip() for part in BORDER.split("\n".join(prose(text))) if part.strip()]


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


@pytest.mark.parametrize("page", PAGES)
def test_a_line_is_a_sentence(page: str) -> None:
    lines = prose((ROOT / page).read_text(encoding="utf-8"))
    assert not [line for line in lines if not line.startswith("    ") and len(sentences(line)) > 1]


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("A rate is work over time. It is of all devices.", 2),
        ("- It ends. `pytest` goes on.", 2),
        ("1. **Count.** Ranks are one (see `a. B`, or this. Then that).", 1),
        ("Versions 2.3 and newer, as in [a page. Or two](x.md).", 1),
    ],
)
def test_what_a_sentence_is(line: str, count: int) -> None:
    assert len(sentences(line)) == count


def test_what_a_paragraph_is() -> None:
    text = "# A title\nOne.\nTwo.\n| a | b |\n\n- three\n  and four\n- five\n```python\nsix\n```\n"
    assert paragraphs(text) == ["# A title\nOne.\nTwo.", "- three\n  and four", "- five"]
