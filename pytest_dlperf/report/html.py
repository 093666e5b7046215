"""A document as one HTML file: nothing is loaded, nothing runs, light or dark as the reader."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pytest_dlperf.report.document import Document, Facts, Grid, Mark

_STYLE: Final = """
:root { color-scheme: light dark; --line: #d0d7de; --quiet: #59636e; }
@media (prefers-color-scheme: dark) { :root { --line: #3d444d; --quiet: #9198a1; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: auto; padding: 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { border: 1px solid var(--line); padding: .25rem .6rem; text-align: right; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; }
dt, .remark, ol { color: var(--quiet); }
dd { margin: 0; overflow-wrap: anywhere; }
sup a { text-decoration: none; }
"""


def render(document: Document) -> str:
    """Return the page of ``document``."""
    title = escape(document.title)
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>",
        *(_facts(block) for block in document.environments),
        *(_grid(grid) for grid in document.grids),
    ]
    if document.footnotes:
        notes = (
            f'<li id="note{i}">{escape(note)}</li>' for i, note in enumerate(document.footnotes, 1)
        )
        parts.append("\n".join(["<hr>\n<ol>", *notes, "</ol>"]))
    return "\n".join([*parts, "</body>\n</html>\n"])


def _facts(block: Facts) -> str:
    pairs = (f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in block.facts)
    return "\n".join([f"<h2>{escape(block.heading)}</h2>\n<dl>", *pairs, "</dl>"])


def _grid(grid: Grid) -> str:
    headings = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in grid.headings)
    rows = (f"<tr>{''.join(_mark(mark) for mark in row)}</tr>" for row in grid.rows)
    return "\n".join(
        [
            f'<h2>{escape(grid.heading)}</h2>\n<p class="remark">{escape(grid.remark)}</p>',
            f'<div class="wide"><table>\n<thead><tr>{headings}</tr></thead>\n<tbody>',
            *rows,
            "</tbody>\n</table></div>",
        ]
    )


def _mark(mark: Mark) -> str:
    notes = ", ".join(f'<a href="#note{number}">{number}</a>' for number in mark.notes)
    return f"<td>{escape(mark.text)}{f'<sup>{notes}</sup>' if notes else ''}</td>"
