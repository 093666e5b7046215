"""The page of a session, or of several results files read as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pytest_dlperf.core.measurement import short_commit
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.report import figures
from pytest_dlperf.report.comparison_document import compare, comparison_document
from pytest_dlperf.report.document import Document, Grid, Mark
from pytest_dlperf.report.environment_section import environment_blocks
from pytest_dlperf.report.page.case_section import case_section
from pytest_dlperf.report.page.markup import (
    Html,
    facts,
    joined,
    name,
    paragraph,
    render_page,
    text,
)
from pytest_dlperf.report.page.scaling_chart import curve_name, scaling_charts
from pytest_dlperf.report.page.table import (
    Column,
    TableCell,
    TableRow,
    filters,
    number,
    table,
)
from pytest_dlperf.report.page.verdicts import (
    attention,
    badge,
    badge_of,
    counted,
    counts,
    importance,
)
from pytest_dlperf.report.scaling import scaling_grid


def comparison_section(document: Document) -> Html:
    """Return the markup of ``document``; its title is a heading of the second level."""
    parts = [f"<h2>{text(document.title)}</h2>"]
    parts += [_grid(grid) for grid in document.grids]
    if document.footnotes:
        notes = (
            f'<li id="note{number}" dir="auto">{text(note)}</li>'
            for number, note in enumerate(document.footnotes, 1)
        )
        parts.append(joined(['<ol class="notes">', *notes, "</ol>"]))
    for block in document.environments:
        parts += [f"<h3>{text(block.heading)}</h3>", facts(block.facts)]
    return joined(parts)


def _grid(grid: Grid) -> Html:
    first, *numbers = grid.headings
    columns = [
        Column(heading=first),
        *(Column(heading=heading, kind="number") for heading in numbers),
    ]
    rows = [TableRow(cells=tuple(_cell(mark) for mark in row)) for row in grid.rows]
    return joined([f"<h3>{text(grid.heading)}</h3>", table(grid.remark, columns, rows)])


def _cell(mark: Mark) -> TableCell:
    notes = ", ".join(f'<a href="#note{number}">{number}</a>' for number in mark.notes)
    above = f"<sup>{notes}</sup>" if notes else ""
    return TableCell(shown=Html(f"{text(mark.text)}{above}"))


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
            number(figures.change(comparison), comparison.change),
            number(figures.interval(comparison), low),
            number(figures.percent(comparison.sees, sign=False), comparison.sees),
            number(figures.ABSENT if speedup is None else f"{speedup:.2f}", speedup),
            number(figures.memory(memory), memory),
            number(str(runs) if runs else figures.ABSENT, runs or None),
        ),
    )


#: Cases with a section of their own, and with the trace of their iterations: a page of more is
#: too large to open. Those that need attention come first.
_SECTIONS_MAX: Final = 500
_TRACES_MAX: Final = 250
#: Sections of so few cases are open from the beginning.
_OPEN_MAX: Final = 2
_TITLE: Final = "Training performance"


def render(outcomes: Sequence[Outcome]) -> str:
    """Return the page of a session, with its frameworks compared."""
    if not outcomes:
        empty = paragraph("No case came to an end in this session: there is nothing to show.")
        body = joined([f"<h1>{_TITLE}</h1>", empty])
        return render_page(title=_TITLE, body=body)
    document = comparison_document(
        environment_blocks(outcomes), compare(outcomes, ()), scaling_grid(outcomes)
    )
    return session_page(outcomes, document)


def session_page(outcomes: Sequence[Outcome], document: Document) -> str:
    """Return the page of ``outcomes``; ``document`` is how they are compared."""
    ordered = sorted(outcomes, key=importance)
    links = {index: f"case-{index}" for index in range(min(len(ordered), _SECTIONS_MAX))}
    curves = scaling_charts(ordered)
    sections = [
        case_section(
            index,
            outcome,
            link=links[index],
            scaling=curves.get(curve_name(outcome)),
            with_trace=index < _TRACES_MAX,
            is_open=len(ordered) <= _OPEN_MAX,
        )
        for index, outcome in enumerate(ordered[:_SECTIONS_MAX])
    ]
    body = joined(
        [
            f"<header><h1>{_TITLE}</h1>",
            *_where(outcomes),
            "</header>",
            counted(ordered),
            attention(ordered, links),
            "<h2>Cases</h2>",
            case_table(ordered, links),
            "<h2>Case by case</h2>",
            *_left_out(len(ordered)),
            *sections,
            comparison_section(document),
        ]
    )
    return render_page(title=_title(ordered), body=body)


def _title(outcomes: Sequence[Outcome]) -> str:
    return f"{_TITLE}, {len(outcomes)} {'case' if len(outcomes) == 1 else 'cases'}"


def _where(outcomes: Sequence[Outcome]) -> Iterator[Html]:
    """Return when, where and of what the outcomes are."""
    words = {
        "": figures.period(outcome.time for outcome in outcomes),
        "on": _several(o.environment.machine_class for o in outcomes if o.environment),
        "commit": _several(short_commit(o.commit) for o in outcomes if o.commit),
        "against": _several(o.against.name for o in outcomes if o.against),
    }
    parts = [f"{text(word)} {name(value)}".strip() for word, value in words.items() if value]
    if parts:
        yield Html(f'<p class="quiet">{" · ".join(parts)}</p>')


def _several(values: Iterator[str]) -> str:
    distinct = list(dict.fromkeys(values))
    return ", ".join(distinct[:3]) + (
        f" and {len(distinct) - 3} more" if len(distinct) > 3 else ""
    )


def _left_out(count: int) -> Iterator[Html]:
    if count > _SECTIONS_MAX:
        yield paragraph(
            f"The {_SECTIONS_MAX} cases that need attention most have a section, the first "
            f"{_TRACES_MAX} of them with their iterations; the table has all {count}. The results "
            "file of --dlperf-json has everything."
        )
    elif count > _TRACES_MAX:
        yield paragraph(
            f"The iterations of the {_TRACES_MAX} cases that need attention most are drawn, those "
            "of the others are left out: the results file of --dlperf-json has them."
        )
