"""A document for the terminal."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_dlperf.report.document import Document, Facts, Grid, Mark


def render(document: Document) -> str:
    """Return the text of ``document``."""
    lines = [document.title]
    for block in document.environments:
        lines += ["", *_facts(block)]
    for grid in document.grids:
        lines += ["", grid.heading, grid.remark, *_rows(grid)]
    if document.footnotes:
        lines += ["", *(f"[{i}] {_flat(note)}" for i, note in enumerate(document.footnotes, 1))]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _facts(block: Facts) -> list[str]:
    width = max((_width(name) for name, _ in block.facts), default=0)
    return [block.heading, *(f"  {_pad(name, width)}  {_flat(v)}" for name, v in block.facts)]


def _rows(grid: Grid) -> list[str]:
    rows = [grid.headings, *([_mark(mark) for mark in row] for row in grid.rows)]
    widths = [max(_width(row[i]) for row in rows) for i in range(len(grid.headings))]
    return [_line(row, widths) for row in rows]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(" " * (w - _width(c)) + c for c, w in zip(row, widths, strict=True))


def _mark(mark: Mark) -> str:
    return mark.text + "".join(f"[{number}]" for number in mark.notes)


def _flat(text: str) -> str:
    return " ".join(text.split())


def _pad(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _width(text: str) -> int:
    """Return the columns that ``text`` takes: Chinese characters take two."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
