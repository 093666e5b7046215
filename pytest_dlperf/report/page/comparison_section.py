"""The comparison of the source reports in a page: environments, tables, footnotes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_dlperf.report.page.markup import Html, facts, joined, text
from pytest_dlperf.report.page.table import Column, TableCell, TableRow, table

if TYPE_CHECKING:
    from pytest_dlperf.report.document import Document, Grid, Mark


def comparison_section(document: Document) -> Html:
    """Return the markup of ``document``; its title is a heading of the second level."""
    parts = [f"<h2>{text(document.title)}</h2>"]
    parts += [_grid(grid) for grid in document.grids]
    if document.footnotes:
        notes = (
            f'<li id="note{number}" dir="auto">{text(note)}</li>'
            for number, note in enumerate(document.footnotes, 1)
        )
        parts.append(joined(['<ol class="notes">', *notes, "</ol>"]))
    for block in document.environments:
        parts += [f"<h3>{text(block.heading)}</h3>", facts(block.facts)]
    return joined(parts)


def _grid(grid: Grid) -> Html:
    first, *others = grid.headings
    columns = [Column(heading=first), *(Column(heading=one, kind="number") for one in others)]
    rows = [TableRow(cells=tuple(_cell(mark) for mark in row)) for row in grid.rows]
    return joined([f"<h3>{text(grid.heading)}</h3>", table(grid.remark, columns, rows)])


def _cell(mark: Mark) -> TableCell:
    notes = ", ".join(f'<a href="#note{number}">{number}</a>' for number in mark.notes)
    above = f"<sup>{notes}</sup>" if notes else ""
    return TableCell(shown=Html(f"{text(mark.text)}{above}"))
