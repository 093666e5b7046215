"""A comparison of outcomes and published numbers as a document, with environments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.case import CaseId
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.report import figures
from pytest_dlperf.report.compared_cell import Cell, Published
from pytest_dlperf.report.comparison_table import (
    Row,
    Table,
    TableKey,
    TableMaker,
    key_of,
    table_key,
)
from pytest_dlperf.report.document import Document, Facts, Grid, Mark
from pytest_dlperf.report.environment_section import EnvironmentBlock, field_names


class Footnotes:
    """Gives numbers to texts; the same text has the same number wherever it is needed."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, text: str, notes: Iterable[str]) -> Mark:
        """Return ``text`` with the numbers of ``notes``, new ones where they are new."""
        numbers = self._numbers
        found = [numbers.setdefault(note, len(numbers) + 1) for note in notes]
        return Mark(text=text, notes=tuple(dict.fromkeys(found)))

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts, by number."""
        return tuple(self._numbers)


# The tables that the source reports have: outcomes and published numbers, side by side.
#
# Rows are layouts with their batch size, columns the values of one field. What was not measured,
# or differs from the other cells by more than that field, has a footnote.

REDUCER: Final = "median over the runs of the work of all ranks over the time of the slowest rank"


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparisonTables:
    """All tables of one comparison."""

    field: str
    reducer: str
    tables: tuple[Table, ...]


def compare(
    outcomes: Sequence[Outcome], published: Iterable[Baseline], field: str = "framework"
) -> ComparisonTables:
    """Return the tables of ``outcomes``, whose columns are the values of ``field``.

    Published numbers stand beside the outcomes of their suite, size and precision. Raises
    ``UsageError`` if no outcome records ``field``.
    """
    known = field_names(outcomes)
    if field not in known:
        raise UsageError(f"no outcome records {field!r}; they record: {', '.join(known)}")
    made: dict[TableKey, TableMaker] = {}
    for outcome in outcomes:
        key = key_of(outcome.case, field)
        made.setdefault(key, TableMaker(field)).add(outcome)
    for baseline in published:
        case_id = CaseId.parse(baseline.case_id)
        if maker := made.get(table_key(case_id, field)):
            maker.add_published(case_id, baseline)
    return ComparisonTables(
        field=field,
        reducer=REDUCER,
        tables=tuple(maker.table(key) for key, maker in made.items()),
    )


#: A figure of a cell with its footnotes.
_Figure: TypeAlias = "tuple[str, tuple[str, ...]]"
#: What a heading says after the column's name, and what each cell has there.
_Column: TypeAlias = "tuple[str, Callable[[Cell], _Figure]]"
_ROW_HEADINGS: Final = ("devices", "layout", "batch size")


def comparison_document(
    environments: Sequence[EnvironmentBlock],
    comparison: ComparisonTables,
    scaling: Grid | None = None,
) -> Document:
    """Return the report: environments first, as in the source reports; ``scaling`` last."""
    footnotes = Footnotes()
    grids: list[Grid] = []
    for table in comparison.tables:
        grids.append(_rates(table, comparison.reducer, footnotes))
        if _has_training_time(table):
            grids.append(_training_times(table, footnotes))
    return Document(
        title=f"Training performance by {comparison.field}",
        environments=tuple(
            _environment(number, block) for number, block in enumerate(environments, 1)
        ),
        grids=(*grids, scaling) if scaling else tuple(grids),
        footnotes=footnotes.texts,
    )


def _environment(number: int, block: EnvironmentBlock) -> Facts:
    facts = {name: value or figures.ABSENT for name, value in block.facts.items()}
    facts |= {
        "machine class": ", ".join(block.machine_classes),
        "nodes": ", ".join(block.nodes),
        **block.others,
        "cases": _counted(block.case_ids),
    }
    return Facts(heading=f"Environment {number}", facts=tuple(facts.items()))


def _counted(case_ids: Sequence[str]) -> str:
    """Return how many cases there are of each suite and framework: ``tsm-torch 6``."""
    counts = Counter("-".join(case_id.split("-")[:2]) for case_id in case_ids)
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def _name(table: Table) -> str:
    suite = table.suite if table.size in {None, "full"} else f"{table.suite}.{table.size}"
    parts = (suite, table.framework, table.precision, table.axes)
    return ", ".join(part for part in parts if part)


def _rates(table: Table, reducer: str, footnotes: Footnotes) -> Grid:
    unit = f"{table.unit}/s" if table.unit else "rate"
    remark = "nothing was measured"
    if table.window is not None:
        first, end = table.window
        remark = f"{unit} over iterations {first} to {end}: {reducer}"
    columns: list[_Column] = [(unit, _rate), ("speedup", _speedup)]
    if any(cell.published for row in table.rows for cell in row.cells):
        columns.append(("published", _published_rates))
    return _grid(table, f"{_name(table)}: throughput", columns, remark, footnotes)


def _has_training_time(table: Table) -> bool:
    return any(
        cell.time_to_train_s is not None or _published_times(cell)
        for row in table.rows
        for cell in row.cells
    )


def _training_times(table: Table, footnotes: Footnotes) -> Grid:
    columns = (("projected s", _training_time), ("published s", _published_training_time))
    remark = "epochs * samples per epoch / rate; validation is not in it, but in published times"
    return _grid(table, f"{_name(table)}: time to train", columns, remark, footnotes)


def _grid(
    table: Table, heading: str, columns: Sequence[_Column], remark: str, footnotes: Footnotes
) -> Grid:
    names = [f"{column} {text}" for column in table.columns for text, _ in columns]
    return Grid(
        heading=heading,
        headings=(*_ROW_HEADINGS, *names),
        rows=tuple(
            (
                *_row_marks(row),
                *(footnotes.mark(*figure(cell)) for cell in row.cells for _, figure in columns),
            )
            for row in table.rows
        ),
        remark=remark,
    )


def _row_marks(row: Row) -> tuple[Mark, ...]:
    values = (row.devices, row.layout, row.batch_size_per_device)
    return tuple(Mark(text=str(value)) for value in values)


def _rate(cell: Cell) -> _Figure:
    return figures.rate(cell.throughput), cell.notes


def _speedup(cell: Cell) -> _Figure:
    text = figures.ABSENT if cell.speedup is None else f"{cell.speedup:.2f}"
    return text, cell.speedup_notes


def _published_rates(cell: Cell) -> _Figure:
    texts = [
        figures.exact(p.throughput)
        + (f" (speedup {figures.exact(p.speedup)})" if p.speedup is not None else "")
        for p in cell.published
    ]
    return _joined(texts, cell.published)


def _training_time(cell: Cell) -> _Figure:
    seconds = cell.time_to_train_s
    return figures.ABSENT if seconds is None else f"{seconds:.0f}", cell.time_to_train_notes


def _published_training_time(cell: Cell) -> _Figure:
    known = _published_times(cell)
    return _joined([figures.exact(p.time_to_train_s or 0) for p in known], known)


def _published_times(cell: Cell) -> list[Published]:
    return [p for p in cell.published if p.time_to_train_s is not None]


def _joined(texts: Sequence[str], published: Sequence[Published]) -> _Figure:
    notes = tuple(
        f"published for {p.machine_class}, in {p.unit}/s: {p.document}" for p in published
    )
    return "; ".join(texts) or figures.ABSENT, notes
