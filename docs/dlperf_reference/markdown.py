"""Markdown that the reference is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a cell may hold Markdown, and any text."""
    lines = [_row(head), _row(["---"] * len(head)), *map(_row, rows)]
    return "\n".join(lines) + "\n"


def code(text: str) -> str:
    """Return ``text`` as code, or nothing for nothing."""
    return f"`{text}`" if text else ""


def _row(cells: Sequence[str]) -> str:
    inner = " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    return f"| {inner} |"
