"""The tables that the source reports have: outcomes and published numbers, side by side.

Rows are layouts with their batch size, columns the values of one field. What was not measured,
or differs from the other cells by more than that field, has a footnote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.case_id import CaseId
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.report.comparison_table import Table, TableKey, TableMaker, table_key
from pytest_dlperf.report.recorded_field import field_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_dlperf.core.baseline import Baseline
    from pytest_dlperf.core.outcome import Outcome

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
        key = table_key(CaseId.of(outcome.case), field)
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
