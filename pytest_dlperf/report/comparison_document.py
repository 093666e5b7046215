"""A comparison of outcomes and published numbers as a document, with environments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.id_words import CaseId, option_word
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.report import figures
from pytest_dlperf.report.compared_cell import (
    Cell,
    Published,
    counts,
    measured_cell,
    parent_cell,
    published_cell,
    usual_conditions,
)
from pytest_dlperf.report.document import Document, Facts, Grid, Mark
from pytest_dlperf.report.environment_section import (
    UNKNOWN,
    EnvironmentBlock,
    field_names,
    fields_of,
)

#: Cases that differ in one of these stand in tables of their own, unless it is the one compared.
TABLE_FIELDS: Final = ("suite", "size", "framework", "precision")
#: The values of ``TABLE_FIELDS``, the kind of device, and the words of other axes.
TableKey: TypeAlias = "tuple[str | None, ...]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One layout and batch size; a cell for every column."""

    devices: int
    layout: str
    batch_size_per_device: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Cases of one suite, size, framework and precision; the one that is compared is None.

    GPU and CPU layouts stand apart.
    """

    suite: str | None
    size: str | None
    framework: str | None
    precision: str | None
    #: The words of other axes in the ids of these cases, without the one that is compared.
    axes: str
    device: str
    #: Of every cell whose footnotes say nothing else; None if nothing was measured.
    unit: str | None
    #: First measured iteration and the one after the last; None if nothing was measured.
    window: tuple[int, int] | None
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def table_key(case_id: CaseId, field: str) -> TableKey:
    """Return what all cases of the table of ``case_id`` have; None for the field compared."""
    names = (None if name == field else getattr(case_id, name) for name in TABLE_FIELDS)
    return *names, case_id.layout.device, case_id.axes


def key_of(case: Case, field: str) -> TableKey:
    """Return the key of the table of ``case``, whose columns may be one of its own axes."""
    case_id = CaseId.of(case)
    axes = "-".join(word for word in case.words if word != _own_word(case, field))
    return table_key(replace(case_id, axes=axes), field)


def _own_word(case: Case, field: str) -> str:
    """Return the word of the option ``field`` in ids; empty where it can have none."""
    if field == "parallel" and case.parallel:
        return case.parallel
    options = dict(case.options)
    try:
        return option_word(field, options[field]) if field in options else ""
    except UsageError:  # an option that is no axis may be any text
        return ""


class TableMaker:
    """Sorts outcomes and published numbers into the cells of one table."""

    def __init__(self, field: str) -> None:
        self._field = field
        # Insertion order is that of the results files
        self._columns: dict[str, None] = {}
        self._rows: set[tuple[Layout, int]] = set()
        self._outcomes: dict[tuple[Layout, int, str], list[Outcome]] = {}
        #: The latest outcome that measured this case of one device beside its own.
        self._parents: dict[tuple[Layout, int, str], Outcome] = {}
        # By column as well where it is part of the id, else for all columns (None).
        self._published: dict[tuple[Layout, int, str | None], list[Baseline]] = {}

    def add(self, outcome: Outcome) -> None:
        """Take what was measured, or why it was not."""
        layout, batch_size = outcome.case.layout, outcome.case.batch_size_per_device
        column = fields_of(outcome).get(self._field, UNKNOWN)
        self._columns[column] = None
        self._rows.add((layout, batch_size))
        self._outcomes.setdefault((layout, batch_size, column), []).append(outcome)
        parent = outcome.case.parent()
        measured = outcome.measurement is not None and outcome.measurement.parent_throughputs
        if parent is not None and measured and counts(outcome):
            self._rows.add((parent.layout, batch_size))
            key = parent.layout, batch_size, column
            former = self._parents.get(key)
            if former is None or former.time < outcome.time:
                self._parents[key] = outcome

    def add_published(self, case_id: CaseId, baseline: Baseline) -> None:
        """Take a published number."""
        row = case_id.layout, case_id.batch_size_per_device
        column = getattr(case_id, self._field) if self._field in TABLE_FIELDS else None
        if column is not None:
            self._columns[column] = None
        self._rows.add(row)
        self._published.setdefault((*row, column), []).append(baseline)

    def table(self, key: TableKey) -> Table:
        """Return the table of what was taken; ``key`` says what all of it has."""
        outcomes = [o for of_cell in self._outcomes.values() for o in of_cell if counts(o)]
        usual = usual_conditions(outcomes)

        def cell(layout: Layout, batch_size: int, column: str) -> Cell:
            outcomes_of_cell = self._outcomes.get((layout, batch_size, column), ())
            beside = self._beside(layout, batch_size, column)
            parent_of = self._parents.get((layout, batch_size, column))
            if parent_of is not None and not outcomes_of_cell:
                return parent_cell(parent_of, beside, field=self._field, usual=usual)
            return measured_cell(outcomes_of_cell, beside, field=self._field, usual=usual)

        suite, size, framework, precision, device, axes = key
        return Table(
            suite=suite,
            size=size,
            framework=framework,
            precision=precision,
            axes=axes or "",
            device=device or "",
            unit=usual.get("unit"),
            window=usual.get("window"),
            columns=tuple(self._columns),
            rows=tuple(
                Row(
                    devices=layout.world_size,
                    layout=str(layout),
                    batch_size_per_device=batch_size,
                    cells=tuple(cell(layout, batch_size, column) for column in self._columns),
                )
                for layout, batch_size in sorted(self._rows, key=_row_order)
            ),
        )

    def _beside(self, layout: Layout, batch_size: int, column: str) -> tuple[Published, ...]:
        keys = ((layout, batch_size, column), (layout, batch_size, None))
        return tuple(
            published_cell(baseline) for key in keys for baseline in self._published.get(key, ())
        )


def _row_order(row: tuple[Layout, int]) -> tuple[int, str, int]:
    layout, batch_size = row
    return layout.world_size, str(layout), batch_size


class Footnotes:
    """Gives numbers to texts; the same text has the same number wherever it is needed."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, text: str, notes: Iterable[str]) -> Mark:
        """Return ``text`` with the numbers of ``notes``, new ones where they are new."""
        numbers = self._numbers
        note_numbers = [numbers.setdefault(note, len(numbers) + 1) for note in notes]
        return Mark(text=text, notes=tuple(dict.fromkeys(note_numbers)))

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
    names = field_names(outcomes)
    if field not in names:
        raise UsageError(f"no outcome records {field!r}; they record: {', '.join(names)}")
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
    times = _published_times(cell)
    return _joined([figures.exact(p.time_to_train_s or 0) for p in times], times)


def _published_times(cell: Cell) -> list[Published]:
    return [p for p in cell.published if p.time_to_train_s is not None]


def _joined(texts: Sequence[str], published: Sequence[Published]) -> _Figure:
    notes = tuple(
        f"published for {p.machine_class}, in {p.unit}/s: {p.document}" for p in published
    )
    return "; ".join(texts) or figures.ABSENT, notes
