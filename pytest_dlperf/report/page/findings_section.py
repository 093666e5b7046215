"""The table of what was found of a case: codes, how each weighs, and its figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_dlperf.core.finding import FigureValue, Finding, findings_by_weight
from pytest_dlperf.core.quantity import amount
from pytest_dlperf.core.verdict import Judgement
from pytest_dlperf.report import figures
from pytest_dlperf.report.page.markup import Html, code, name
from pytest_dlperf.report.page.table import Column, TableCell, TableRow, cell, table

#: Figures that are shares of 1.
_SHARES: Final = frozenset(
    {"change", "low", "high", "tolerance", "sees", "min_effect", "alpha", "fall", "known_change"}
)
#: Figures that are sentences: the page has them above.
_SENTENCES: Final = frozenset({"text", "says", "detail"})
#: Characters of a text in a cell.
_LONGEST: Final = 60
_COLUMNS: Final = (
    Column(heading="code"),
    Column(heading="weight"),
    Column(heading="stage"),
    Column(heading="figures"),
)


def findings_section(judgement: Judgement) -> Html:
    """Return the table of findings that count, what decided first; nothing where there is none."""
    rows = [_row(finding) for finding in findings_by_weight(judgement.findings)]
    return table("What was found; the first decided", _COLUMNS, rows) if rows else Html("")


def _row(finding: Finding) -> TableRow:
    return TableRow(
        cells=(
            TableCell(shown=code(finding.name)),
            cell(str(finding.weight)),
            cell(finding.stage),
            TableCell(shown=name(", ".join(_figures(finding)))),
        )
    )


def _figures(finding: Finding) -> Iterator[str]:
    """Yield the figures in words: ``change -5.2 %``."""
    for key, value in finding.figures.items():
        if words := _value(key, value):
            yield f"{key.replace('_', ' ')} {words}"


def _value(key: str, value: FigureValue) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        is_short = len(value) <= _LONGEST and "\n" not in value
        return value if is_short and key not in _SENTENCES else ""
    return figures.percent(value) if key in _SHARES else amount(value)
