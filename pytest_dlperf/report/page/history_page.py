"""A history as a page: every series with its changes, a chart each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pytest_dlperf.core.command_results import HistoryFound, JudgedPoint
from pytest_dlperf.report import figures
from pytest_dlperf.report.page.markup import Html, joined, name, paragraph, render_page
from pytest_dlperf.report.page.series_chart import POINTS_MAX
from pytest_dlperf.report.page.series_section import series_section
from pytest_dlperf.report.page.series_table import series_table
from pytest_dlperf.report.page.shown_series import shown_series

TITLE: Final = "Training performance over time"
#: So many series have a chart; the table has all.
_CHARTS_MAX: Final = 300
#: Outcomes in the charts of a page, all series together, and of a series at least: each has
#: marks and a row, of 600 bytes.
_POINTS_MAX: Final = 20_000
_POINTS_MIN: Final = 60


def points_max(history: HistoryFound) -> int:
    """Return how many outcomes of each series are drawn on the page of all: its newest ones."""
    share = _POINTS_MAX // max(1, min(len(history.series), _CHARTS_MAX))
    return min(POINTS_MAX, max(_POINTS_MIN, share))


def render_history(
    title: str, history: HistoryFound, judged: Iterable[JudgedPoint] = (), *, note: str = ""
) -> str:
    """Return the page of the series of a history; ``note`` is a sentence for its top.

    ``title`` is the history's name.
    """
    shown = shown_series(history.series, history.changes, judged=judged)
    drawn = shown[:_CHARTS_MAX]
    links = {entry.series.key: f"#{entry.anchor}" for entry in drawn}
    newest = points_max(history)
    body = joined(
        [
            f"<header><h1>{TITLE}</h1>",
            where(title, history),
            "</header>",
            paragraph(_summary(history, len(shown))),
            paragraph(note),
            "<h2>Series</h2>",
            series_table(shown, lambda entry: links.get(entry.series.key, "")),
            *(
                series_section(
                    entry, follows=str(row), heading=entry.series.case_id, points_max=newest
                )
                for row, entry in enumerate(drawn)
            ),
        ]
    )
    return render_page(title=f"{TITLE}, {len(shown)} series", body=body)


def where(title: str, history: HistoryFound, *counts: str) -> Html:
    """Return the line under a heading: the history's name, ``counts``, from when to when."""
    period = figures.period(point.time for series in history.series for point in series.points)
    words = " · ".join(str(name(word)) for word in (title, *counts, period) if word)
    return Html(f'<p class="quiet">{words}</p>')


def _summary(history: HistoryFound, count: int) -> str:
    points = sum(len(series.points) for series in history.series)
    counts = f"{points} outcomes in {count} series"
    if history.searched:
        counts += f"; {figures.counted(len(history.changes), 'change')} of a level"
    left = ", ".join(f"{count} {why}" for why, count in sorted(history.left_out.items()))
    return f"{counts}; left out of the levels: {left}" if left else counts
