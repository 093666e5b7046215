"""The table of all cases, and its filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_dlperf.report import figures
from pytest_dlperf.report.page.markup import Html, joined, name
from pytest_dlperf.report.page.table import (
    Column,
    TableCell,
    TableRow,
    filters,
    number,
    table,
)
from pytest_dlperf.report.page.verdicts import badge, badge_of, counts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_dlperf.core.outcome import Outcome

_KEY: Final = "cases"
_COLUMNS: Final = (
    Column(heading="case"),
    Column(heading="verdict"),
    Column(heading="rate", kind="number"),
    Column(heading="before", kind="number"),
    Column(heading="change", kind="number"),
    Column(heading="90 % interval", kind="number"),
    Column(heading="sees", kind="number"),
    Column(heading="speedup", kind="number"),
    Column(heading="memory", kind="number"),
    Column(heading="runs", kind="number"),
)


def case_table(outcomes: Sequence[Outcome], links: Mapping[int, str]) -> Html:
    """Return the cases with what filters them; ``links`` has the id of each case's section."""
    buttons = {
        verdict.value: Html(f"{badge(verdict)} {count}")
        for verdict, count in counts(outcomes).items()
    }
    rows = [_row(index, outcome, links.get(index, "")) for index, outcome in enumerate(outcomes)]
    return joined(
        [
            filters(_KEY, noun="cases", facets={"verdict": buttons}),
            table("Cases, by what needs attention", _COLUMNS, rows, key=_KEY, sortable=True),
        ]
    )


def _row(index: int, outcome: Outcome, link: str) -> TableRow:
    case_id = name(outcome.case.id)
    shown = Html(f'<a href="#{link}">{case_id}</a>') if link else case_id
    verdict = outcome.judgement.verdict
    comparison, measurement = outcome.judgement.throughput, outcome.measurement
    rate = outcome.judged_throughput
    speedup = None if measurement is None else measurement.speedup
    memory = None if measurement is None else measurement.peak_memory_bytes
    runs = 0 if measurement is None else len(measurement.runs)
    unit = "" if measurement is None else f" {measurement.unit}/s"
    low = None if comparison.interval is None else comparison.interval[0]
    return TableRow(
        key=str(index),
        facets={"verdict": verdict.value},
        cells=(
            TableCell(shown=shown, sort=outcome.case.id),
            TableCell(shown=badge_of(outcome), sort=verdict.value),
            number(f"{figures.rate(rate)}{unit}", rate),
            number(figures.rate(comparison.before), comparison.before),
            number(figures.percent(comparison.change), comparison.change),
            number(figures.interval(comparison), low),
            number(figures.percent(comparison.sees, sign=False), comparison.sees),
            number(figures.ABSENT if speedup is None else f"{speedup:.2f}", speedup),
            number(figures.memory(memory), memory),
            number(str(runs) if runs else figures.ABSENT, runs or None),
        ),
    )
