"""A comparison with its environments as a document: which figure stands in which column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from pytest_dlperf.report import figures
from pytest_dlperf.report.document import Document, Facts, Grid, Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_dlperf.report.compared_cell import Cell
    from pytest_dlperf.report.comparison import ComparisonTables, Row, Table
    from pytest_dlperf.report.environment_section import EnvironmentBlock

#: One kind of figure: what a heading says after the column's name, and what a cell has of it.
_Figure: TypeAlias = "tuple[str, Callable[[Cell], Mark]]"
_ROW_HEADINGS: Final = ("devices", "layout", "batch size")


def comparison_document(
    environments: Sequence[EnvironmentBlock], comparison: ComparisonTables
) -> Document:
    """Return the report: environments first, as in the source reports."""
    grids: list[Grid] = []
    for table in comparison.tables:
        grids.append(_rates(table, comparison.reducer))
        if _has_training_time(table):
            grids.append(_training_times(table))
    return Document(
        title=f"Training performance by {comparison.field}",
        environments=tuple(
            _environment(number, block) for number, block in enumerate(environments, 1)
        ),
        grids=tuple(grids),
        footnotes=comparison.footnotes,
    )


def _environment(number: int, block: EnvironmentBlock) -> Facts:
    facts = {name: value or figures.ABSENT for name, value in block.facts.items()}
    facts |= {
        "machine class": ", ".join(block.machine_classes),
        "nodes": ", ".join(block.nodes),
        **block.others,
        "cases": ", ".join(block.case_ids),
    }
    return Facts(heading=f"Environment {number}", facts=tuple(facts.items()))


def _name(table: Table) -> str:
    suite = table.suite if table.size in {None, "full"} else f"{table.suite}.{table.size}"
    return ", ".join(part for part in (suite, table.framework, table.precision) if part)


def _rates(table: Table, reducer: str) -> Grid:
    unit = f"{table.unit or 'samples'}/s"
    remark = "nothing was measured"
    if table.window is not None:
        first, end = table.window
        remark = f"{unit} over iterations {first} to {end}: {reducer}"
    columns: list[_Figure] = [(unit, _rate), ("speedup", _speedup)]
    if any(cell.published for row in table.rows for cell in row.cells):
        columns.append(("published", _published_rates))
    return _grid(table, f"{_name(table)}: throughput", columns, remark)


def _has_training_time(table: Table) -> bool:
    return any(
        cell.time_to_train_s is not None or _training_seconds(cell)
        for row in table.rows
        for cell in row.cells
    )


def _training_times(table: Table) -> Grid:
    columns = (("projected s", _training_time), ("published s", _published_training_time))
    remark = "epochs * samples per epoch / rate; validation is not in it, but in published times"
    return _grid(table, f"{_name(table)}: time to train", columns, remark)


def _grid(table: Table, heading: str, columns: Sequence[_Figure], remark: str) -> Grid:
    names = [f"{column} {text}" for column in table.columns for text, _ in columns]
    return Grid(
        heading=heading,
        headings=(*_ROW_HEADINGS, *names),
        rows=tuple(
            (*_row_marks(row), *(mark(cell) for cell in row.cells for _, mark in columns))
            for row in table.rows
        ),
        remark=remark,
    )


def _row_marks(row: Row) -> tuple[Mark, ...]:
    values = (row.devices, row.layout, row.batch_size_per_device)
    return tuple(Mark(text=str(value)) for value in values)


def _rate(cell: Cell) -> Mark:
    return Mark(text=figures.rate(cell.throughput), notes=cell.notes)


def _speedup(cell: Cell) -> Mark:
    text = figures.ABSENT if cell.speedup is None else f"{cell.speedup:.2f}"
    return Mark(text=text, notes=cell.speedup_notes)


def _published_rates(cell: Cell) -> Mark:
    texts = [
        figures.exact(p.throughput)
        + (f" (speedup {figures.exact(p.speedup)})" if p.speedup is not None else "")
        for p in cell.published
    ]
    return Mark(
        text="; ".join(texts) or figures.ABSENT, notes=tuple(p.note for p in cell.published)
    )


def _training_time(cell: Cell) -> Mark:
    seconds = cell.time_to_train_s
    text = figures.ABSENT if seconds is None else f"{seconds:.0f}"
    return Mark(text=text, notes=cell.time_to_train_notes)


def _published_training_time(cell: Cell) -> Mark:
    known = _training_seconds(cell)
    text = "; ".join(figures.exact(seconds) for seconds, _ in known)
    return Mark(text=text or figures.ABSENT, notes=tuple(note for _, note in known))


def _training_seconds(cell: Cell) -> list[tuple[float, int]]:
    return [(p.time_to_train_s, p.note) for p in cell.published if p.time_to_train_s is not None]
