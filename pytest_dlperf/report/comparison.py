"""The tables that the source reports have: outcomes and published numbers, side by side.

Rows are layouts with their batch size, columns the values of one field. What was not measured,
or differs from the other cells by more than that field, has a footnote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from pytest_dlperf.core.case_id import CaseId
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.report.compared_cell import (
    Cell,
    Published,
    counts,
    measured_cell,
    published_cell,
)
from pytest_dlperf.report.recorded_field import UNKNOWN, field_names, fields_of
from pytest_dlperf.report.table_conditions import usual_conditions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_dlperf.core.baseline import Baseline
    from pytest_dlperf.core.layout import Layout
    from pytest_dlperf.core.outcome import Outcome

REDUCER: Final = "median over the runs of the work of all ranks over the time of the slowest rank"
#: Cases that differ in one of these stand in tables of their own, unless it is the one compared.
_TABLE_FIELDS: Final = ("suite", "size", "framework", "precision")


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
    device: str
    #: Of every cell whose footnotes say nothing else; None if nothing was measured.
    unit: str | None
    #: First measured iteration and the one after the last; None if nothing was measured.
    window: tuple[int, int] | None
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparisonTables:
    """All tables of one comparison."""

    field: str
    reducer: str
    tables: tuple[Table, ...]


_TableKey: TypeAlias = "tuple[str | None, ...]"


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
    made: dict[_TableKey, _TableMaker] = {}
    for outcome in outcomes:
        key = _table_key(CaseId.of(outcome.case), field)
        made.setdefault(key, _TableMaker(field)).add(outcome)
    for baseline in published:
        case_id = CaseId.parse(baseline.case_id)
        if maker := made.get(_table_key(case_id, field)):
            maker.add_published(case_id, baseline)
    return ComparisonTables(
        field=field,
        reducer=REDUCER,
        tables=tuple(maker.table(key) for key, maker in made.items()),
    )


def _table_key(case_id: CaseId, field: str) -> _TableKey:
    names = (None if name == field else getattr(case_id, name) for name in _TABLE_FIELDS)
    return *names, case_id.layout.device


class _TableMaker:
    """Sorts outcomes and published numbers into the cells of one table."""

    def __init__(self, field: str) -> None:
        self._field = field
        # Insertion order is that of the results files
        self._columns: dict[str, None] = {}
        self._rows: set[tuple[Layout, int]] = set()
        self._outcomes: dict[tuple[Layout, int, str], list[Outcome]] = {}
        #: By column as well where it is part of the id, else for all columns (None).
        self._published: dict[tuple[Layout, int, str | None], list[Baseline]] = {}

    def add(self, outcome: Outcome) -> None:
        layout, batch_size = outcome.case.layout, outcome.case.batch_size_per_device
        column = fields_of(outcome).get(self._field, UNKNOWN)
        self._columns[column] = None
        self._rows.add((layout, batch_size))
        self._outcomes.setdefault((layout, batch_size, column), []).append(outcome)

    def add_published(self, case_id: CaseId, baseline: Baseline) -> None:
        row = case_id.layout, case_id.batch_size_per_device
        column = getattr(case_id, self._field) if self._field in _TABLE_FIELDS else None
        if column is not None:
            self._columns[column] = None
        self._rows.add(row)
        self._published.setdefault((*row, column), []).append(baseline)

    def table(self, key: _TableKey) -> Table:
        measurements = [
            outcome.measurement
            for found in self._outcomes.values()
            for outcome in found
            if outcome.measurement is not None and counts(outcome)
        ]
        usual = usual_conditions(measurements)

        def cell(layout: Layout, batch_size: int, column: str) -> Cell:
            return measured_cell(
                self._outcomes.get((layout, batch_size, column), ()),
                self._beside(layout, batch_size, column),
                field=self._field,
                usual=usual,
            )

        suite, size, framework, precision, device = key
        return Table(
            suite=suite,
            size=size,
            framework=framework,
            precision=precision,
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


def _row_order(row: tuple[Layout, int]) -> tuple[str, int, str, int]:
    layout, batch_size = row
    return layout.device, layout.world_size, str(layout), batch_size
