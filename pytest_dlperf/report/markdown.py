"""Render a document as Markdown, with the tables and footnotes of GitHub."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from pytest_dlperf.report.document import Document, Grid, Mark
from pytest_dlperf.report.printable import one_line, printable

#: What Markdown, HTML or a table would read as its own.
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>|~&#$])")
#: Where GitHub and GitLab would notify somebody, or link an issue or a merge request. They look
#: for these in what Markdown has become, so that only what stands between breaks them: here a
#: space without width.
_CALLS: Final = re.compile(r"@(?=[\w-])|#(?=\d)|!(?=\d)|\bGH-(?=\d)", re.IGNORECASE)


def render(document: Document) -> str:
    """Return the Markdown of ``document``."""
    lines = [f"# {inline(document.title)}"]
    for facts in document.environments:
        lines += ["", f"## {inline(facts.heading)}", ""]
        lines += [f"- {inline(name)}: {inline(value)}" for name, value in facts.facts]
    for grid in document.grids:
        lines += ["", f"## {inline(grid.heading)}", "", inline(grid.remark), "", *_rows(grid)]
    if document.footnotes:
        lines.append("")
        lines += [f"[^{i}]: {inline(note)}" for i, note in enumerate(document.footnotes, 1)]
    return "\n".join(lines) + "\n"


def _rows(grid: Grid) -> list[str]:
    return [
        row(inline(heading) for heading in grid.headings),
        row("--:" for _ in grid.headings),
        *(row(_mark(mark) for mark in marks) for marks in grid.rows),
    ]


def row(cells: Iterable[str]) -> str:
    """Return a row of a table, of cells that are Markdown already."""
    return f"| {' | '.join(cells)} |"


def _mark(mark: Mark) -> str:
    return inline(mark.text) + "".join(f"[^{number}]" for number in mark.notes)


def inline(text: str) -> str:
    """Return ``text`` in one line, as nothing but text: it links nothing and notifies nobody."""
    return _SPECIAL.sub(r"\\\1", _CALLS.sub("\\g<0>\u200b", one_line(text)))


def block(text: str) -> str:
    """Return ``text``, lines and all, as a block of code whose fence it cannot end."""
    text = printable(text)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"
