"""The pages of a site over a history: all series, a page a case, and the sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_dlperf.core.command_results import Point, Series, Site, StoredSession
from pytest_dlperf.core.measurement import short_commit
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.report import figures
from pytest_dlperf.report.history_text import commit_range
from pytest_dlperf.report.page.history_page import DATE, KEY, NEVER, TITLE
from pytest_dlperf.report.page.markup import Html, joined, name, paragraph, text
from pytest_dlperf.report.page.series_chart import series_chart
from pytest_dlperf.report.page.site_compare import compare_link, compare_page
from pytest_dlperf.report.page.site_frame import (
    COMPARE,
    INDEX,
    SESSIONS,
    ShownSeries,
    case_page_name,
    shown_series,
    site_page,
    verdict_words,
)
from pytest_dlperf.report.page.svg import figure, sparkline
from pytest_dlperf.report.page.table import (
    Column,
    TableCell,
    TableRow,
    cell,
    filters,
    number,
    table,
)
from pytest_dlperf.report.page.verdicts import badge, sentence

#: Outcomes in the small curve of the index, and in the chart of a series.
_SPARK_POINTS: Final = 40
_POINTS_MAX: Final = 2000


def pages(site: Site) -> Iterator[tuple[str, str]]:
    """Yield the path of each page below the site's folder, and the page."""
    shown = shown_series(site)
    yield INDEX, _index(site, shown)
    by_case: dict[str, list[ShownSeries]] = {}
    for one in shown:
        by_case.setdefault(one.series.case_id, []).append(one)
    for case_id, some in by_case.items():
        yield case_page_name(case_id), _case_page(case_id, some)
    yield SESSIONS, _sessions_page(site)
    yield COMPARE, compare_page(site, shown)


# ---- the first page

_COLUMNS: Final = (
    Column(heading="case"),
    Column(heading="machine class"),
    Column(heading="node"),
    Column(heading="newest verdict"),
    Column(heading="measured"),
    Column(heading="rate", kind="number"),
    Column(heading="trend"),
    Column(heading="last change", kind="number"),
    Column(heading="since"),
    Column(heading="accepted"),
    Column(heading="outcomes", kind="number"),
)


def _index(site: Site, shown: Sequence[ShownSeries]) -> str:
    points = sum(len(entry.series.points) for entry in shown)
    verdicts = Counter(entry.newest.verdict for entry in shown)
    summary = (
        f"{figures.counted(points, 'outcome')} of {figures.counted(len(shown), 'series')} in "
        f"{figures.counted(len(site.sessions), 'session')}, {site.sessions[0].time} to "
        f"{site.sessions[-1].time}"
    )
    facets = {
        "verdict": {
            verdict: Html(f"{_badge(verdict)} {count}") for verdict, count in verdicts.items()
        },
        "changed": {kind: text(kind) for kind in ("slower", "faster", "steady")},
    }
    rows = [_index_row(index, entry) for index, entry in enumerate(shown)]
    return site_page(
        TITLE,
        "",
        [
            f'<p class="quiet">{name(site.history.history)}</p>',
            paragraph(summary),
            paragraph(site.note),
            "<h2>Cases</h2>",
            filters(KEY, noun="series", facets=facets),
            table("Every series, by its newest outcome", _COLUMNS, rows, key=KEY, sortable=True),
        ],
    )


def _index_row(index: int, shown: ShownSeries) -> TableRow:
    series, newest = shown.series, shown.newest
    rate = _newest_rate(series)
    change = shown.changes[-1] if shown.changes else None
    accepted = None if change is None else shown.accepted(change)
    share = None if change is None else change.change
    kind = "steady" if share is None else "slower" if share < 0 else "faster"
    curve = [point.throughput for point in series.level_points[-_SPARK_POINTS:]]
    return TableRow(
        key=str(index),
        facets={"verdict": newest.verdict, "changed": kind},
        cells=(
            TableCell(
                shown=Html(f'<a href="{text(shown.link)}">{name(series.case_id)}</a>'),
                sort=series.case_id,
            ),
            TableCell(shown=name(series.machine_class), sort=series.machine_class),
            TableCell(shown=name(series.node), sort=series.node),
            TableCell(shown=_badge_of(newest), sort=newest.verdict),
            cell(newest.time[:DATE], newest.time),
            number(
                figures.ABSENT if rate is None else f"{figures.rate(rate)} {series.unit}/s", rate
            ),
            TableCell(shown=sparkline([rate for rate in curve if rate is not None])),
            number(figures.percent(share), share),
            cell(change.time[:DATE], change.time) if change else NEVER,
            TableCell(shown=name(accepted.reason)) if accepted else NEVER,
            number(str(len(series.points)), len(series.points)),
        ),
    )


def _newest_rate(series: Series) -> float | None:
    """Return the newest rate that counts for the level, of none the newest."""
    rates = (point.throughput for point in reversed(series.level_points or series.points))
    return next((rate for rate in rates if rate is not None), None)


def _badge_of(point: Point) -> Html:
    return _badge(point.verdict, verdict_words(point).removeprefix(point.verdict))


def _badge(verdict: str, note: str = "") -> Html:
    """Return a verdict with its sign; as it is where a later version has another."""
    try:
        return badge(Verdict(verdict), note)
    except ValueError:
        return name(f"{verdict}{note}")


# ---- a case


def _case_page(case_id: str, some: Sequence[ShownSeries]) -> str:
    return site_page(case_id, "../", [_section(one) for one in some])


def _section(shown: ShownSeries) -> Html:
    series = shown.series
    place = ", ".join(filter(None, (series.machine_class, series.node))) or "unknown machine"
    under = "; ".join(f"{key} {value}" for key, value in series.conditions.items())
    parts = [
        f'<section id="{shown.anchor}">',
        f"<h2>{name(place)}</h2>",
        f'<p class="quiet">{text(f"under {under}")}</p>' if under else "",
        f"<p>{_badge_of(shown.newest)} {text(shown.newest.time)}</p>",
    ]
    if shown.last_word is not None:
        parts.append(sentence(shown.last_word.reason))
        if shown.last_word.known_slowdown:
            parts.append(paragraph(shown.last_word.known_slowdown))
    chart = series_chart(series, shown.changes, points_max=_POINTS_MAX)
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
                    cell(change.time),
                    number(figures.percent(change.change), change.change),
                    number(figures.rate(change.before), change.before),
                    number(figures.rate(change.after), change.after),
                    TableCell(shown=name(commit_range(change))),
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
        TableRow(cells=(cell(level.time), TableCell(shown=name(level.reason))))
        for level in reversed(shown.acknowledged)
    ]
    columns = [Column(heading="when"), Column(heading="reason")]
    return table("Levels that somebody accepted", columns, rows)


# ---- sessions


def _sessions_page(site: Site) -> str:
    verdicts = {
        point.number: point.verdict for series in site.history.series for point in series.points
    }
    rows = []
    before: StoredSession | None = None
    for session in site.sessions:
        counts = Counter(verdicts[key] for key in session.outcomes if key in verdicts)
        verdict_counts = ", ".join(
            f"{count} {verdict}" for verdict, count in sorted(counts.items())
        )
        link = "" if before is None else compare_link(before, session)
        rows.append(
            TableRow(
                cells=(
                    cell(session.time),
                    TableCell(shown=name(session.name), sort=session.name),
                    TableCell(shown=name(short_commit(session.commit)), sort=session.commit),
                    number(str(counts.total()), counts.total()),
                    cell(verdict_counts),
                    TableCell(
                        shown=Html(f'<a href="{text(link)}">with the one before</a>')
                        if link
                        else text(figures.ABSENT)
                    ),
                )
            )
        )
        before = session
    columns = [
        Column(heading="began"),
        Column(heading="session"),
        Column(heading="commit"),
        Column(heading="outcomes", kind="number"),
        Column(heading="verdicts"),
        Column(heading="compared"),
    ]
    made = table("Sessions, the newest first", columns, rows[::-1], key="sessions", sortable=True)
    return site_page("Sessions", "", [made])
