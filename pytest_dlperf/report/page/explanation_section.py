"""The part of a case's section that says why it got slower: bars of the parts, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pytest_dlperf.core.outcome import Explanation, OperatorChange, PartChange
from pytest_dlperf.report.explanation import (
    further_lines,
    further_tables,
    headings,
    operator_row,
    part_row,
    remark,
)
from pytest_dlperf.report.page.icicle import icicle
from pytest_dlperf.report.page.markup import Html, code, joined, paragraph, text
from pytest_dlperf.report.page.table import Column, TableCell, TableRow, cell, number, table

#: Colours of the parts, in their order; of the palette of Okabe and Ito.
_COLOURS: Final = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442",
)  # fmt: skip
_WIDTH: Final = 600
_HEIGHT: Final = 22


def explanation_section(found: Explanation | None) -> Html:
    """Return why a case got slower; nothing where no profile was taken."""
    if found is None:
        return Html("")
    parts = ["<h3>Why</h3>"]
    if found.sentence:
        parts.append(paragraph(f"{found.sentence[0].upper()}{found.sentence[1:]}."))
    if found.note:
        parts.append(paragraph(f"note: {found.note}", kind="quiet"))
    if found.parts:
        caption = remark(found)
        parts += [_bars(found), _table(f"Parts of {caption}", "part", found.parts)]
    if found.operators:
        parts.append(_table("Operators", "operator", found.operators))
    if found.parts:
        parts += [paragraph(line) for line in further_lines(found)]
        parts.append(icicle(found.modules))
    for title, cells in further_tables(found):
        parts.append(_plain(title, cells))
    if found.traces:
        parts.append(paragraph("Traces, for a viewer such as Perfetto's:"))
        parts += [f"<p>{code(trace)}</p>" for trace in found.traces]
    return joined(parts)


def _table(
    caption: str, kind: str, changes: Sequence[PartChange] | Sequence[OperatorChange]
) -> Html:
    first, *others = headings(kind)
    columns = [Column(heading=first), *(Column(heading=one, kind="number") for one in others)]
    rows = []
    for change in changes:
        cells = part_row(change) if isinstance(change, PartChange) else operator_row(change)
        figures: list[TableCell] = [number(one, None) for one in cells[1:]]
        rows.append(TableRow(cells=(cell(cells[0]), *figures)))
    return table(caption, columns, rows)


def _plain(caption: str, rows: Sequence[Sequence[str]]) -> Html:
    """Return a table of words; the first row has the headings."""
    first, *others = rows[0]
    columns = [Column(heading=first), *(Column(heading=one, kind="number") for one in others)]
    shown = [
        TableRow(cells=(cell(cells[0]), *(number(one, None) for one in cells[1:])))
        for cells in rows[1:]
    ]
    return table(caption, columns, shown)


def _bars(found: Explanation) -> Html:
    """Return a bar of each arm's step, of its parts."""
    names = sorted(change.part for change in found.parts)
    colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(names)}
    longest = max(found.before_ms or 0.0, found.after_ms or 0.0) or 1.0
    sides = [("after", [change.after_ms for change in found.parts])]
    if found.before_ms is not None:
        sides.insert(0, ("before", [change.before_ms or 0.0 for change in found.parts]))
    lines = [
        f'<svg class="parts" role="img" aria-label="the parts of a step" width="100%" '
        f'viewBox="0 0 {_WIDTH + 60} {(_HEIGHT + 6) * len(sides)}">'
    ]
    for row, (side, values) in enumerate(sides):
        top, left = row * (_HEIGHT + 6), 55.0
        lines.append(
            f'<text x="0" y="{top + _HEIGHT - 6}" font-size="13" fill="currentColor">{side}</text>'
        )
        for change, value in zip(found.parts, values, strict=True):
            width = _WIDTH * value / longest
            lines.append(
                f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_HEIGHT}" '
                f'fill="{colours[change.part]}"><title>{text(change.part)}: {value:.2f} ms'
                "</title></rect>"
            )
            left += width
    legend = "".join(
        f'<li><svg width="12" height="12" aria-hidden="true"><rect width="12" height="12" '
        f'fill="{colours[name]}"/></svg> {text(name)}</li>'
        for name in (change.part for change in found.parts)
    )
    return joined([*lines, "</svg>", f"<ul>{legend}</ul>"])
