"""The links of Markdown documents within the repository, and those that lead nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from dlperf_reference import COMMENT, TABLES

#: Code, in which a link is none.
_CODE: Final = re.compile(r"^( *)(`{3,}).*?^\1\2$|<!--.*?-->", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(
    r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)"  # [text](target), ![text](target)
    r"|^\[[^\]]+\]: (\S+)"  # [name]: target
    r"|\b(?:href|src)=\"([^\"]+)\"",
    re.MULTILINE,
)
_IN_LINE: Final = re.compile(r"`[^`\n]*`")
_HEADING: Final = re.compile(r"^#{1,4} +(.+?)(?: +#+)?$", re.MULTILINE)
_MARK_UP: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|[`*]")
_ELSEWHERE: Final = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)
#: A document that a text of the code names, with its heading where it names one; not that of
#: another project, such as "PaddleVideo's docs/...".
_NAMED: Final = re.compile(
    r"(?<!'s )(?<![\w/.-])(?:docs|guides|benchmarks)/[\w/.-]*\.md(?:#[\w-]+)?"
)


def links(text: str) -> Iterator[str]:
    """Yield the targets of a document's links, but for those with a scheme, such as https."""
    prose = _IN_LINE.sub("", _CODE.sub("", text))
    for match in _LINK.finditer(prose):
        target = next(filter(None, match.groups()))
        if _ELSEWHERE.match(target) is None:
            yield target


def anchors(text: str) -> frozenset[str]:
    """Return the anchors of a document's headings, as GitHub and MyST make them."""
    made: set[str] = set()
    for match in _HEADING.finditer(_CODE.sub("", text)):
        words = _MARK_UP.sub(r"\1", match[1]).lower()
        anchor = plain = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        number = 0
        while anchor in made:
            number += 1
            anchor = f"{plain}-{number}"
        made.add(anchor)
    return frozenset(made)


@cache
def _anchors_in_page(page: Path) -> frozenset[str]:
    return anchors(page.read_text(encoding="utf-8"))


@cache
def _anchors_of_tables(page: Path) -> frozenset[str]:
    """Return the anchors of the tables of a page that are made from the code, which takes time."""
    names = COMMENT.findall(page.read_text(encoding="utf-8"))
    return anchors("\n".join(TABLES[name]() for name in names))


def is_there(target: str, page: Path) -> bool:
    """Return whether a link of ``page`` leads to a file, and to a heading where it names one."""
    name, _, anchor = target.partition("#")
    path = page.parent / name if name else page
    if not path.exists():
        return False
    if not anchor:
        return True
    return path.suffix == ".md" and (
        anchor in _anchors_in_page(path) or anchor in _anchors_of_tables(path)
    )


def named_documents(code: str) -> list[str]:
    """Return the documents of the repository that a text of the code names."""
    return _NAMED.findall(code)
