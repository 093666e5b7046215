"""A report as headings, lists and tables: as text here, as Markdown and HTML elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_dlperf.report.aligned import aligned
from pytest_dlperf.report.printable import columns, one_line, padded


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """Text in a grid, with the numbers of its footnotes."""

    text: str
    notes: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """A heading over names and values."""

    heading: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """A heading over a table; every row is as long as ``headings``."""

    heading: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Mark, ...], ...]
    #: What holds for all cells.
    remark: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A whole report; ``footnotes`` are numbered from 1."""

    title: str
    environments: tuple[Facts, ...]
    grids: tuple[Grid, ...]
    footnotes: tuple[str, ...]


def to_text(document: Document) -> str:
    """Return the text of ``document``."""
    lines = [document.title]
    for block in document.environments:
        lines += ["", *_facts(block)]
    for grid in document.grids:
        lines += ["", grid.heading, grid.remark, *_rows(grid)]
    if document.footnotes:
        lines += ["", *(f"[{i}] {one_line(note)}" for i, note in enumerate(document.footnotes, 1))]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _facts(block: Facts) -> list[str]:
    width = max((columns(name) for name, _ in block.facts), default=0)
    return [block.heading, *(f"  {padded(name, width)}  {one_line(v)}" for name, v in block.facts)]


def _rows(grid: Grid) -> list[str]:
    rows = [grid.headings, *([_mark(mark) for mark in row] for row in grid.rows)]
    return aligned(rows, right=range(len(grid.headings)))


def _mark(mark: Mark) -> str:
    return one_line(mark.text) + "".join(f"[{number}]" for number in mark.notes)
