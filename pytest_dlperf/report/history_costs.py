"""The series of a case's cost in text: each figure over the outcomes that counted it."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_dlperf.core.command_results import Counted
from pytest_dlperf.core.cost import COST_FIGURES, CostFigure, meaning_of
from pytest_dlperf.core.measurement import short_commit
from pytest_dlperf.core.quantity import scaled
from pytest_dlperf.report import figures
from pytest_dlperf.report.aligned import aligned
from pytest_dlperf.report.cost import words_of
from pytest_dlperf.report.printable import one_line

#: Of the comparison, and of no step.
_COMPARED = "regrouped"


def costs_of(outcomes: Sequence[Counted]) -> list[str]:
    """Return a table: a row a figure, a column an outcome, the oldest first.

    Figures that are 0 in all are left out. The last column is what each grew by, from the first
    that has it to the last.
    """
    values = [
        {words_of(figure): figure for figure in outcome.figures if figure.name != _COMPARED}
        for outcome in outcomes
    ]
    by_words = {name: figure for each in values for name, figure in each.items() if figure.now}
    order = list(COST_FIGURES)
    names = sorted(by_words, key=lambda name: _place(by_words[name], order))
    heads = (short_commit(outcome.commit) or outcome.time for outcome in outcomes)
    rows = [("figure", *heads, "grew by")]
    for name in names:
        unit = meaning_of(by_words[name].name).unit
        figures_now = [each.get(name) for each in values]
        cells = (
            figures.ABSENT if figure is None else scaled(figure.now, unit)
            for figure in figures_now
        )
        rows.append((name, *cells, _growth(figures_now, unit)))
    cleaned = [[one_line(cell) for cell in row] for row in rows]
    return [f"  {line}" for line in aligned(cleaned, right=range(1, len(rows[0])))]


def _place(figure: CostFigure, order: Sequence[str]) -> tuple[int, str, int]:
    name = figure.name
    return order.index(name) if name in order else len(order), figure.dtype, figure.rank


def _growth(series: Sequence[CostFigure | None], unit: str) -> str:
    counted = [figure.now for figure in series if figure is not None]
    change = counted[-1] - counted[0]
    return f"{'-' if change < 0 else '+'}{scaled(abs(change), unit)}" if change else "0"
