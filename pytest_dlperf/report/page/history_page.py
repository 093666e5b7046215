"""A history as a page: every series with its changes, a chart each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pytest_dlperf.core.command_results import Change, HistoryFound, Series, changes_within
from pytest_dlperf.report import figures
from pytest_dlperf.report.history_text import commit_range, commits_of
from pytest_dlperf.report.page.markup import Html, joined, name, paragraph, render_page, text
from pytest_dlperf.report.page.series_chart import POINTS_MAX, series_chart
from pytest_dlperf.report.page.svg import figure
from pytest_dlperf.report.page.table import (
    Column,
    TableCell,
    TableRow,
    cell,
    filters,
    number,
    table,
)

#: Of a time, the characters of its date.
DATE: Final = 10
KEY: Final = "series"
TITLE: Final = "Training performance over time"
#: So many series have a chart; the table has all.
_CHARTS_MAX: Final = 300
#: Outcomes in the charts of a page, all series together, and of a series at least: each has a
#: mark and a row, of 330 bytes.
_POINTS_MAX: Final = 20_000
_POINTS_MIN: Final = 60
_COLUMNS: Final = (
    Column(heading="case"),
    Column(heading="machine class"),
    Column(heading="node"),
    Column(heading="outcomes", kind="number"),
    Column(heading="newest"),
    Column(heading="rate", kind="number"),
    Column(heading="last change", kind="number"),
    Column(heading="since"),
    Column(heading="commits"),
)
NEVER: Final = number(figures.ABSENT, None)


def render_history(history: HistoryFound, *, note: str = "") -> str:
    """Return the page of the series of a history; ``note`` is a sentence for its top."""
    rows: list[TableRow] = []
    sections: list[Html] = []
    ordered = sorted(
        ((series, changes_within(series, history.changes)) for series in history.series),
        key=_newest,
    )
    share = _POINTS_MAX // max(1, min(len(ordered), _CHARTS_MAX))
    points_max = min(POINTS_MAX, max(_POINTS_MIN, share))
    for index, (series, changes) in enumerate(ordered):
        link = f"series-{index}" if index < _CHARTS_MAX else ""
        rows.append(_row(index, series, changes, link))
        if link:
            sections.append(_section(index, series, changes, points_max=points_max))
    buttons = {kind: text(kind) for kind in ("slower", "faster", "steady")}
    body = joined(
        [
            f"<header><h1>{TITLE}</h1>",
            f'<p class="quiet">{name(history.history)}</p></header>',
            paragraph(_summary(history)),
            paragraph(note),
            "<h2>Series</h2>",
            filters(KEY, noun="series", facets={"changed": buttons}),
            table("Series, those that changed last first", _COLUMNS, rows, key=KEY, sortable=True),
            "<h2>Case by case</h2>",
            *sections,
        ]
    )
    return render_page(title=f"{TITLE}, {len(history.series)} series", body=body)


def _newest(row: tuple[Series, Sequence[Change]]) -> tuple[bool, str, str]:
    """Order by the last change, newest first, and then by name."""
    series, changes = row
    # Times have equal lengths: letters turned round sort the other way
    when = "".join(chr(0x7F - ord(c)) for c in changes[-1].time) if changes else ""
    return not changes, when, series.case_id


def _summary(history: HistoryFound) -> str:
    points = [point for series in history.series for point in series.points]
    times = sorted(point.time for point in points)
    counts = f"{len(points)} outcomes in {len(history.series)} series, {times[0]} to {times[-1]}"
    if history.searched:
        counts += f"; {figures.counted(len(history.changes), 'change')} of a level"
    left = ", ".join(f"{count} {why}" for why, count in sorted(history.left_out.items()))
    return f"{counts}; left out of the levels: {left}" if left else counts


def _row(index: int, series: Series, changes: Sequence[Change], link: str) -> TableRow:
    newest = series.points[-1]
    measured = [point.throughput for point in series.points if point.throughput is not None]
    rate = measured[-1] if measured else None
    change = changes[-1] if changes else None
    share = None if change is None else change.change
    shown = name(series.case_id)
    return TableRow(
        key=str(index),
        facets={"changed": _kind(share)},
        cells=(
            TableCell(
                shown=Html(f'<a href="#{link}">{shown}</a>') if link else shown,
                sort=series.case_id,
            ),
            cell(series.machine_class),
            TableCell(shown=name(series.node), sort=series.node),
            number(str(len(series.points)), len(series.points)),
            cell(newest.time[:DATE], newest.time),
            number(
                figures.ABSENT if rate is None else f"{figures.rate(rate)} {series.unit}/s", rate
            ),
            number(figures.percent(share), share),
            cell(change.time[:DATE], change.time) if change else NEVER,
            cell(commits_of(change)) if change else NEVER,
        ),
    )


def _kind(share: float | None) -> str:
    if share is None:
        return "steady"
    return "slower" if share < 0 else "faster"


def _section(index: int, series: Series, changes: Sequence[Change], *, points_max: int) -> Html:
    place = ", ".join(filter(None, (series.machine_class, series.node)))
    under = "; ".join(f"{key} {value}" for key, value in series.conditions.items())
    changed = [
        paragraph(f"{figures.percent(change.change)} {commit_range(change)}")
        for change in reversed(changes)
    ]
    chart = figure(
        f"series-{index}", "Throughput", series_chart(series, changes, points_max=points_max)
    )
    return joined(
        [
            f'<section id="series-{index}" data-follows="{index}">',
            f"<h3>{name(series.case_id)}</h3>",
            f'<p class="quiet">{name(place)}{text(f" under {under}") if under else ""}</p>',
            *changed,
            chart or paragraph("Nothing was measured."),
            "</section>",
        ]
    )
