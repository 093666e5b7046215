"""One table of a comparison, sorted together from outcomes and published numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.case import Case, CaseId
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.id_words import option_word
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.report.compared_cell import (
    Cell,
    Published,
    counts,
    measured_cell,
    parent_cell,
    published_cell,
    usual_conditions,
)
from pytest_dlperf.report.environment_section import UNKNOWN, fields_of

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
    others = "-".join(word for word in case.axes if word != _own_word(case, field))
    return table_key(replace(case_id, axes=others), field)


def _own_word(case: Case, field: str) -> str:
    """Return the word of the option ``field`` in ids; empty where it can have none."""
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
            known = self._parents.get(key)
            if known is None or known.time < outcome.time:
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
        outcomes = [o for found in self._outcomes.values() for o in found if counts(o)]
        usual = usual_conditions(outcomes)

        def cell(layout: Layout, batch_size: int, column: str) -> Cell:
            found = self._outcomes.get((layout, batch_size, column), ())
            beside = self._beside(layout, batch_size, column)
            parent_of = self._parents.get((layout, batch_size, column))
            if parent_of is not None and not found:
                return parent_cell(parent_of, beside, field=self._field, usual=usual)
            return measured_cell(found, beside, field=self._field, usual=usual)

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
