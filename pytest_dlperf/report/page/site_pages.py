"""The pages of a site over a history: all series, a page a case, and the sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pytest_dlperf.core.command_results import Site, StoredSession
from pytest_dlperf.core.measurement import short_commit
from pytest_dlperf.report import figures
from pytest_dlperf.report.page.history_page import TITLE, where
from pytest_dlperf.report.page.markup import Html, name, paragraph, text
from pytest_dlperf.report.page.series_section import series_section
from pytest_dlperf.report.page.series_table import series_table
from pytest_dlperf.report.page.shown_series import ShownSeries, shown_series
from pytest_dlperf.report.page.site_compare import compare_link, compare_page
from pytest_dlperf.report.page.site_frame import (
    COMPARE,
    INDEX,
    SESSIONS,
    case_page_name,
    series_link,
    session_anchor,
    site_page,
)
from pytest_dlperf.report.page.table import Column, TableCell, TableRow, cell, number, table
from pytest_dlperf.report.page.verdicts import badge, urgency

#: Cases that a session names.
_NAMED_MAX: Final = 3
_PASSED: Final = 3


def pages(site: Site) -> Iterator[tuple[str, str]]:
    """Yield the path of each page below the site's folder, and the page."""
    shown = shown_series(
        site.history.series,
        site.history.changes,
        judged=site.judged,
        acknowledged=site.acknowledged,
        links=_session_links(site.sessions),
    )
    yield INDEX, _index(site, shown)
    by_case: dict[str, list[ShownSeries]] = {}
    for entry in shown:
        by_case.setdefault(entry.series.case_id, []).append(entry)
    for case_id, some in by_case.items():
        sections = [series_section(entry) for entry in some]
        yield case_page_name(case_id), site_page(case_id, "../", sections)
    yield SESSIONS, _sessions_page(site, shown)
    yield COMPARE, compare_page(site, shown)


def _session_links(sessions: Sequence[StoredSession]) -> dict[int, str]:
    """Return where each outcome's session is, from the page of a case."""
    return {
        number: f"../{SESSIONS}#{session_anchor(session.name)}"
        for session in sessions
        for number in session.outcomes
    }


def _index(site: Site, shown: Sequence[ShownSeries]) -> str:
    points = sum(len(entry.series.points) for entry in shown)
    summary = (
        f"{figures.counted(points, 'outcome')} of {figures.counted(len(shown), 'series')}. "
        "Those that someone must look at come first: failed, not judged, slower since a change "
        "that nobody accepted."
    )
    sessions = figures.counted(len(site.sessions), "session")
    return site_page(
        TITLE,
        "",
        [paragraph(summary), paragraph(site.note), series_table(shown, series_link)],
        where=where(site.name, site.history, sessions),
    )


_SESSION_COLUMNS: Final = (
    Column(heading="began"),
    Column(heading="session"),
    Column(heading="commit"),
    Column(heading="outcomes", kind="number"),
    Column(heading="verdicts"),
    Column(heading="to look at"),
    Column(heading="compared"),
)


def _sessions_page(site: Site, shown: Sequence[ShownSeries]) -> str:
    places = {
        point.number: (point.verdict, entry) for entry in shown for point in entry.series.points
    }
    rows = []
    before: StoredSession | None = None
    for session in site.sessions:
        rows.append(_session_row(session, before, places))
        before = session
    made = table(
        "Sessions, the newest first", _SESSION_COLUMNS, rows[::-1], key="sessions", sortable=True
    )
    sessions = figures.counted(len(site.sessions), "session")
    return site_page("Sessions", "", [made], where=where(site.name, site.history, sessions))


def _session_row(
    session: StoredSession,
    before: StoredSession | None,
    places: Mapping[int, tuple[str, ShownSeries]],
) -> TableRow:
    judged = [places[number] for number in session.outcomes if number in places]
    counts = Counter(verdict for verdict, _ in judged)
    badges = " ".join(
        f"{badge(verdict)} {counts[verdict]}" for verdict in sorted(counts, key=urgency)
    )
    link = "" if before is None else compare_link(before, session)
    compared = f'<a href="{text(link)}">with the one before</a>' if link else text(figures.ABSENT)
    return TableRow(
        anchor=session_anchor(session.name),
        cells=(
            cell(figures.utc(session.time)),
            TableCell(shown=name(session.name), sort=session.name),
            TableCell(shown=name(short_commit(session.commit)), sort=session.commit),
            number(str(counts.total()), counts.total()),
            TableCell(shown=Html(badges)),
            TableCell(shown=_to_look_at(judged)),
            TableCell(shown=Html(compared)),
        ),
    )


def _to_look_at(judged: Sequence[tuple[str, ShownSeries]]) -> Html:
    """Return links to the cases of a session that did not pass, the most urgent first."""
    urgent = sorted(
        (urgency(verdict), entry.series.case_id, series_link(entry))
        for verdict, entry in judged
        if urgency(verdict) < _PASSED
    )
    links = [f'<a href="{text(link)}">{name(case)}</a>' for _, case, link in urgent[:_NAMED_MAX]]
    left = len(urgent) - _NAMED_MAX
    return Html(", ".join([*links, *([f"{left} more"] if left > 0 else [])]))
