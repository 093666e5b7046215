"""The page of a site that compares two sessions, any of them by a script."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote

from pytest_dlperf.core.command_results import Site, StoredSession
from pytest_dlperf.core.measurement import short_commit
from pytest_dlperf.report import figures
from pytest_dlperf.report.page.markup import Html, name, text
from pytest_dlperf.report.page.series_table import place_words, verdict_words
from pytest_dlperf.report.page.shown_series import ShownSeries
from pytest_dlperf.report.page.site_frame import COMPARE, series_link, site_page
from pytest_dlperf.report.page.table import Column, TableCell, TableRow, cell, number, table

_COMPARED: Final = (
    Column(heading="case"),
    Column(heading="machine class, node"),
    Column(heading="before", kind="number"),
    Column(heading="after", kind="number"),
    Column(heading="change", kind="number"),
    Column(heading="verdict before"),
    Column(heading="verdict after"),
)
_WITHOUT_SCRIPTS: Final = (
    "<noscript><p>These are the two newest sessions; to choose others, the page needs "
    "JavaScript.</p></noscript>"
)


class _Compared(NamedTuple):
    """What the script of the page reads: a session's outcomes by the place of their series."""

    rate: float | None
    verdict: str


def compare_page(site: Site, shown: Sequence[ShownSeries]) -> str:
    """Return the comparison of the two newest sessions, with the data of all others."""
    place = {
        point.number: (index, _Compared(point.throughput, verdict_words(point)))
        for index, shown_series in enumerate(shown)
        for point in shown_series.series.points
    }
    # Of several outcomes of a series the session's last one
    outcomes = [dict(place[n] for n in s.outcomes if n in place) for s in site.sessions]
    last = len(site.sessions) - 1
    first = max(0, last - 1)
    rows = _compared_rows(shown, outcomes[first], outcomes[last])
    selects = " ".join(
        f'<label>{word} <select id="{word}">{_options(site.sessions, chosen)}</select></label>'
        for word, chosen in (("before", first), ("after", last))
    )
    caption = "Series that both sessions measured, the largest fall first, then the others"
    return site_page(
        "Two sessions compared",
        "",
        [
            _WITHOUT_SCRIPTS,
            f'<form class="filters">{selects}</form>',
            table(caption, _COMPARED, rows, key="compared", sortable=True),
            f'<script type="application/json" id="data">{_data(site, shown, outcomes)}</script>',
        ],
        scripts=["compare.js"],
    )


def _compared_rows(
    shown: Sequence[ShownSeries], before: Mapping[int, _Compared], after: Mapping[int, _Compared]
) -> list[TableRow]:
    """Return the rows that ``compare.js`` makes of two sessions."""
    rows = []
    for index, shown_series in enumerate(shown):
        if index not in before and index not in after:
            continue
        old, new = before.get(index), after.get(index)
        rates = [None if side is None else side.rate for side in (old, new)]
        change = rates[1] / rates[0] - 1 if rates[0] and rates[1] is not None else None
        series = shown_series.series
        row = TableRow(
            cells=(
                TableCell(
                    shown=Html(
                        f'<a href="{text(series_link(shown_series))}">{name(series.case_id)}</a>'
                    ),
                    sort=series.case_id,
                ),
                TableCell(shown=name(place_words(series))),
                *(number(_rate(rate, series.unit), rate) for rate in rates),
                number(figures.percent(change), change),
                *(cell(figures.ABSENT if side is None else side.verdict) for side in (old, new)),
            )
        )
        rows.append((change is None, change or 0.0, index, row))
    return [row for _, _, _, row in sorted(rows, key=lambda entry: entry[:3])]


def _rate(value: float | None, unit: str) -> str:
    return figures.ABSENT if value is None else f"{figures.rate(value)} {unit}/s"


def _short(rate: float | None) -> float | None:
    return None if rate is None else float(f"{rate:.8g}")


def _options(sessions: Sequence[StoredSession], chosen: int) -> str:
    return "".join(
        f'<option value="{index}"{" selected" if index == chosen else ""}>'
        f"{text(f'{one.time} {short_commit(one.commit)}')}</option>"
        for index, one in reversed(list(enumerate(sessions)))
    )


def _data(
    site: Site, shown: Sequence[ShownSeries], outcomes: Sequence[Mapping[int, _Compared]]
) -> str:
    """Return the outcomes of all sessions as JSON that cannot end its element."""
    verdicts = sorted({compared.verdict for session in outcomes for compared in session.values()})
    values = {
        "sessions": [session.name for session in site.sessions],
        "series": [
            [
                shown_series.series.case_id,
                place_words(shown_series.series),
                shown_series.series.unit,
                series_link(shown_series),
            ]
            for shown_series in shown
        ],
        "verdicts": verdicts,
        "outcomes": [
            [
                [index, _short(compared.rate), verdicts.index(compared.verdict)]
                for index, compared in session.items()
            ]
            for session in outcomes
        ],
    }
    return json.dumps(values, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def compare_link(before: StoredSession, after: StoredSession) -> str:
    """Return the link to the comparison of two sessions, which are named in it."""
    return f"{COMPARE}#{_quoted(before.name)}&{_quoted(after.name)}"


def _quoted(value: str) -> str:
    return quote(value.encode(errors="surrogatepass"), safe="")
