"""Tables of a page that can be sorted and filtered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal

from pytest_dlperf.report.page.markup import Html, joined, text


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A heading, and how its cells are sorted and set."""

    heading: str
    kind: Literal["text", "number"] = "text"


@dataclass(frozen=True, kw_only=True, slots=True)
class TableCell:
    """What is shown; ``sort`` is by what it is sorted, None (always last) for nothing known."""

    shown: Html
    sort: str | float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TableRow:
    """One row; ``facets`` are what the buttons of ``filters`` choose by."""

    cells: tuple[TableCell, ...]
    #: Part of the page that is hidden with the row has ``data-follows`` with it; may be empty.
    key: str = ""
    #: The id that links lead to; may be empty.
    anchor: str = ""
    facets: Mapping[str, str] = field(default_factory=dict)


def cell(shown: str, sort: str | float | None = None) -> TableCell:
    """Return a cell of plain text."""
    return TableCell(shown=text(shown), sort=shown if sort is None else sort)


def number(shown: str, value: float | None) -> TableCell:
    """Return a cell of a figure, sorted by ``value``; None where it is not known."""
    return TableCell(shown=text(shown), sort=value)


def table(
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[TableRow],
    *,
    key: str = "",
    sortable: bool = False,
) -> Html:
    """Return a table that scrolls by itself where it is wider than the page.

    The first cell of a row is its heading. ``key`` is the id that ``filters`` names.
    """
    name = f' id="{escape(key)}"' if key else ""
    sorts = " data-sortable" if sortable else ""
    heads = "".join(_heading(column, sortable) for column in columns)
    return joined(
        [
            f'<div class="wide" tabindex="0" role="region" aria-label="{text(caption)}">',
            f"<table{name}{sorts}><caption>{text(caption)}</caption>",
            f"<thead><tr>{heads}</tr></thead><tbody>",
            *(_row(row, columns, sortable=sortable) for row in rows),
            "</tbody></table></div>",
        ]
    )


def filters(key: str, *, noun: str, facets: Mapping[str, Mapping[str, Html]]) -> Html:
    """Return what filters the table ``key``: words to search, and buttons.

    ``facets`` has, by facet, each value with what its button shows; ``noun`` is what the rows
    are, in the plural.
    """
    parts = [
        f'<form class="filters" role="search" data-filters="{escape(key)}">',
        f"<label>Filter <input type=search autocomplete=off placeholder="
        f'"words of the {text(noun)}"></label>',
    ]
    for facet, values in facets.items():
        buttons = "".join(
            f'<button type=button aria-pressed=false data-value="{escape(value)}">{shown}</button>'
            for value, shown in values.items()
        )
        parts.append(
            f'<span role=group aria-label="{text(facet)}" data-facet="{escape(facet)}">'
            f"{buttons}</span>"
        )
    parts.append(f'<output data-noun="{text(noun)}"></output></form>')
    return joined(parts)


def _heading(column: Column, sortable: bool) -> str:
    shown = text(column.heading)
    kind = " class=n" if column.kind == "number" else ""
    if not sortable:
        return f'<th scope="col"{kind}>{shown}</th>'
    button = f"<button type=button>{shown}</button>"
    return f'<th scope="col"{kind} data-kind="{column.kind}" aria-sort="none">{button}</th>'


def _row(row: TableRow, columns: Sequence[Column], *, sortable: bool) -> str:
    facets = "".join(f' data-{name}="{text(value)}"' for name, value in row.facets.items())
    key = f' data-key="{text(row.key)}"' if row.key else ""
    anchor = f' id="{text(row.anchor)}"' if row.anchor else ""
    cells = []
    for index, (one, column) in enumerate(zip(row.cells, columns, strict=True)):
        kind = " class=n" if column.kind == "number" else ""
        sort = "" if one.sort is None or not sortable else f' data-sort="{text(one.sort)}"'
        start, end = ('th scope="row"', "th") if index == 0 else ("td", "td")
        cells.append(f"<{start}{kind}{sort}>{one.shown}</{end}>")
    return f"<tr{anchor}{key}{facets}>{''.join(cells)}</tr>"
