"""The table of all series of a history, those that someone must look at first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from pytest_dlperf.core.command_results import Point, Series
from pytest_dlperf.report import figures
from pytest_dlperf.report.page.markup import Html, joined, name, text
from pytest_dlperf.report.page.shown_series import ShownSeries
from pytest_dlperf.report.page.svg import sparkline
from pytest_dlperf.report.page.table import (
    Column,
    TableCell,
    TableRow,
    cell,
    filters,
    number,
    table,
)
from pytest_dlperf.report.page.verdicts import badge, urgency

_KEY: Final = "series"
#: Outcomes in the small curve of a row.
_SPARK_POINTS: Final = 40
#: Of a time, the characters of its date.
_DATE: Final = 10
_COLUMNS: Final = (
    Column(heading="case"),
    Column(heading="newest verdict"),
    Column(heading="change", kind="number"),
    Column(heading="rate", kind="number"),
    Column(heading="trend"),
    Column(heading="last change of the level", kind="number"),
    Column(heading="measured"),
    Column(heading="outcomes", kind="number"),
)


def series_table(shown: Sequence[ShownSeries], link: Callable[[ShownSeries], str]) -> Html:
    """Return the table with what filters it; ``link`` gives the address of a series' section.

    It may be empty. Row ``i`` has the key ``i``, which what is hidden with it follows.
    """
    verdicts = Counter(entry.newest.verdict for entry in shown)
    facets = {
        "verdict": {
            verdict: Html(f"{badge(verdict)} {verdicts[verdict]}")
            for verdict in sorted(verdicts, key=urgency)
        },
        "changed": {kind: text(kind) for kind in ("slower", "faster", "steady")},
    }
    rows = [_row(str(index), entry, link(entry)) for index, entry in enumerate(shown)]
    return joined(
        [
            filters(_KEY, noun="series", facets=facets),
            table(
                "Series by their newest outcome, those to look at first",
                _COLUMNS,
                rows,
                key=_KEY,
                sortable=True,
            ),
        ]
    )


def verdict_words(point: Point) -> str:
    """Return a verdict, and why its outcome does not count where it does not."""
    return f"{point.verdict}{_why_left_out(point)}"


def newest_badge(shown: ShownSeries) -> Html:
    """Return the newest verdict with its sign, and why it does not count where it does not."""
    return badge(shown.newest.verdict, _why_left_out(shown.newest))


def place_words(series: Series) -> str:
    """Return where a series was measured."""
    return ", ".join(filter(None, (series.machine_class, series.node))) or "unknown machine"


def conditions_words(series: Series) -> str:
    """Return what it is under, where other series of the case are not; else nothing."""
    return "; ".join(f"{key} {value}" for key, value in series.conditions.items())


def _why_left_out(point: Point) -> str:
    return f" ({point.left_out})" if point.left_out and point.throughput is not None else ""


def _row(key: str, shown: ShownSeries, link: str) -> TableRow:
    series, newest = shown.series, shown.newest
    case_id = name(series.case_id)
    linked = f'<a href="{text(link)}">{case_id}</a>' if link else case_id
    change = shown.last_change
    kind = "steady" if change is None else "slower" if change.change < 0 else "faster"
    curve = [point.throughput for point in series.level_points[-_SPARK_POINTS:]]
    return TableRow(
        key=key,
        facets={"verdict": newest.verdict, "changed": kind},
        cells=(
            TableCell(shown=Html(f"{linked}{_beneath(place_words(series))}"), sort=series.case_id),
            TableCell(shown=newest_badge(shown), sort=newest.verdict),
            number(figures.percent(newest.change), newest.change),
            number(
                figures.ABSENT
                if shown.rate is None
                else f"{figures.rate(shown.rate)} {series.unit}/s",
                shown.rate,
            ),
            TableCell(shown=sparkline([rate for rate in curve if rate is not None])),
            _last_change(shown),
            cell(newest.time[:_DATE], newest.time),
            number(str(len(series.points)), len(series.points)),
        ),
    )


def _last_change(shown: ShownSeries) -> TableCell:
    change = shown.last_change
    if change is None:
        return number(figures.ABSENT, None)
    accepted = shown.accepted(change)
    words = f"accepted: {accepted.reason}" if accepted else ""
    if shown.open_slowdown is not None:
        words = "not accepted"
    since = text(f"{figures.percent(change.change)} since {change.time[:_DATE]}")
    return TableCell(shown=Html(f"{since}{_beneath(words)}"), sort=change.change)


def _beneath(words: str) -> Html:
    """Return a line beneath the first one of a cell."""
    return Html(f'<div class="beneath">{name(words)}</div>' if words else "")
