"""The section of one series: its newest verdict, its chart, its changes, what was accepted."""

from __future__ import annotations

from pytest_dlperf.core.measurement import short_commit
from pytest_dlperf.report import figures
from pytest_dlperf.report.page.markup import Html, joined, name, paragraph, text
from pytest_dlperf.report.page.series_chart import POINTS_MAX, commits_and_times, series_chart
from pytest_dlperf.report.page.series_table import conditions_words, newest_badge, place_words
from pytest_dlperf.report.page.shown_series import ShownSeries, anchor_of
from pytest_dlperf.report.page.svg import figure
from pytest_dlperf.report.page.table import Column, TableCell, TableRow, cell, number, table
from pytest_dlperf.report.page.verdicts import sentence


def series_section(
    shown: ShownSeries, *, follows: str = "", heading: str = "", points_max: int = POINTS_MAX
) -> Html:
    """Return the section; without a ``heading`` of its own, the place is the heading.

    ``follows`` is the key of the row that it is hidden with; empty for none.
    """
    series, newest = shown.series, shown.newest
    place, conditions = place_words(series), conditions_words(series)
    followed = f' data-follows="{text(follows)}"' if follows else ""
    parts = [
        f'<section id="{shown.anchor}"{followed}>',
        *(f'<span id="{anchor_of(key)}"></span>' for key in shown.unmeasured_keys),
        f"<h2>{name(heading or place)}</h2>",
        f'<p class="quiet">{name(place)}</p>' if heading else "",
        f'<p class="quiet">{text(f"under {conditions}")}</p>' if conditions else "",
        f"<p>{newest_badge(shown)} {text(figures.utc(newest.time))} UTC</p>",
    ]
    last = shown.judged.get(newest.number)
    if last is not None:
        parts.append(sentence(last.reason))
    if last is not None and last.known_slowdown is not None:
        slowdown = last.known_slowdown
        change = figures.percent(slowdown.change)
        parts.append(paragraph(f"known: {slowdown.issue}, {change} until {slowdown.until}"))
    chart = series_chart(shown, points_max=points_max)
    parts += [
        figure(shown.anchor, "Throughput", chart) or paragraph("Nothing was measured."),
        _changes(shown),
        _acknowledged(shown),
        "</section>",
    ]
    return joined(part for part in parts if part)


def _changes(shown: ShownSeries) -> Html:
    """Return where the level changed, the newest first; nothing where it never did."""
    if not shown.changes:
        return Html("")
    columns = [
        Column(heading="since"),
        Column(heading="change", kind="number"),
        Column(heading="before", kind="number"),
        Column(heading="after", kind="number"),
        Column(heading="commits"),
        Column(heading="software"),
        Column(heading="canary"),
        Column(heading="accepted"),
    ]
    rows = []
    for change in reversed(shown.changes):
        accepted = shown.accepted(change)
        canary = "; ".join(f"{n} {figures.percent(v)}" for n, v in change.canary.items())
        rows.append(
            TableRow(
                cells=(
                    cell(figures.utc(change.time)),
                    number(figures.percent(change.change), change.change),
                    number(figures.rate(change.before), change.before),
                    number(figures.rate(change.after), change.after),
                    cell(commits_and_times(change)),
                    TableCell(shown=name("; ".join(change.software) or figures.ABSENT)),
                    TableCell(shown=name(canary or figures.ABSENT)),
                    TableCell(shown=name(accepted.reason if accepted else figures.ABSENT)),
                )
            )
        )
    return table(f"Changes of the level, {shown.series.unit}/s", columns, rows)


def _acknowledged(shown: ShownSeries) -> Html:
    if not shown.acknowledged:
        return Html("")
    rows = [
        TableRow(
            cells=(
                cell(figures.utc(level.time)),
                TableCell(shown=name(short_commit(level.commit) or figures.ABSENT)),
                TableCell(shown=name(level.reason)),
            )
        )
        for level in reversed(shown.acknowledged)
    ]
    columns = [Column(heading="when"), Column(heading="commit"), Column(heading="reason")]
    return table("Levels that somebody accepted", columns, rows)
