"""A document as Markdown, with the tables and footnotes of GitHub."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_dlperf.report.document import Document, Grid, Mark

#: What Markdown, HTML or a table would read as its own.
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>|~&#$])")


def render(document: Document) -> str:
    """Return the Markdown of ``document``."""
    lines = [f"# {_text(document.title)}"]
    for block in document.environments:
        lines += ["", f"## {_text(block.heading)}", ""]
        lines += [f"- {_text(name)}: {_text(value)}" for name, value in block.facts]
    for grid in document.grids:
        lines += ["", f"## {_text(grid.heading)}", "", _text(grid.remark), "", *_rows(grid)]
    if document.footnotes:
        lines.append("")
        lines += [f"[^{i}]: {_text(note)}" for i, note in enumerate(document.footnotes, 1)]
    return "\n".join(lines) + "\n"


def _rows(grid: Grid) -> list[str]:
    return [
        _row(_text(heading) for heading in grid.headings),
        _row("--:" for _ in grid.headings),
        *(_row(_mark(mark) for mark in row) for row in grid.rows),
    ]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _mark(mark: Mark) -> str:
    return _text(mark.text) + "".join(f"[^{number}]" for number in mark.notes)


def _text(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
