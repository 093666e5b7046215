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


def explanation_section(explanation: Explanation | None) -> Html:
    """Return why a case got slower; nothing where no profile was taken."""
    if explanation is None:
        return Html("")
    parts = ["<h3>Why</h3>"]
    if explanation.sentence:
        parts.append(paragraph(f"{explanation.sentence[0].upper()}{explanation.sentence[1:]}."))
    if explanation.note:
        parts.append(paragraph(f"note: {explanation.note}", kind="quiet"))
    if explanation.parts:
        caption = remark(explanation)
        parts += [_bars(explanation), _table(f"Parts of {caption}", "part", explanation.parts)]
    if explanation.operators:
        parts.append(_table("Operators", "operator", explanation.operators))
    if explanation.parts:
        parts += [paragraph(line) for line in further_lines(explanation)]
        parts.append(icicle(explanation.modules))
    for title, cells in further_tables(explanation):
        parts.append(_plain(title, cells))
    if explanation.traces:
        parts.append(paragraph("Traces, for a viewer such as Perfetto's:"))
        parts += [f"<p>{code(trace)}</p>" for trace in explanation.traces]
    return joined(parts)


def _table(
    caption: str, kind: str, changes: Sequence[PartChange] | Sequence[OperatorChange]
) -> Html:
    first, *numbers = headings(kind)
    columns = [
        Column(heading=first),
        *(Column(heading=heading, kind="number") for heading in numbers),
    ]
    rows = []
    for change in changes:
        cells = part_row(change) if isinstance(change, PartChange) else operator_row(change)
        figures: list[TableCell] = [number(figure, None) for figure in cells[1:]]
        rows.append(TableRow(cells=(cell(cells[0]), *figures)))
    return table(caption, columns, rows)


def _plain(caption: str, rows: Sequence[Sequence[str]]) -> Html:
    """Return a table of words; the first row has the headings."""
    first, *numbers = rows[0]
    columns = [
        Column(heading=first),
        *(Column(heading=heading, kind="number") for heading in numbers),
    ]
    shown = [
        TableRow(cells=(cell(cells[0]), *(number(figure, None) for figure in cells[1:])))
        for cells in rows[1:]
    ]
    return table(caption, columns, shown)


def _bars(explanation: Explanation) -> Html:
    """Return a bar of each arm's step, of its parts."""
    names = sorted(change.part for change in explanation.parts)
    colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(names)}
    longest = max(explanation.before_ms or 0.0, explanation.after_ms or 0.0) or 1.0
    sides = [("after", [change.after_ms for change in explanation.parts])]
    if explanation.before_ms is not None:
        sides.insert(0, ("before", [change.before_ms or 0.0 for change in explanation.parts]))
    lines = [
        f'<svg class="parts" role="img" aria-label="the parts of a step" width="100%" '
        f'viewBox="0 0 {_WIDTH + 60} {(_HEIGHT + 6) * len(sides)}">'
    ]
    for row, (side, values) in enumerate(sides):
        top, left = row * (_HEIGHT + 6), 55.0
        lines.append(
            f'<text x="0" y="{top + _HEIGHT - 6}" font-size="13" fill="currentColor">{side}</text>'
        )
        for change, value in zip(explanation.parts, values, strict=True):
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
        for name in (change.part for change in explanation.parts)
    )
    return joined([*lines, "</svg>", f"<ul>{legend}</ul>"])
