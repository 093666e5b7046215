"""What the pages of a site have in common: series, file names, and links between the pages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from pytest_dlperf.core.command_results import (
    Acknowledged,
    Change,
    LastWord,
    Point,
    Series,
    Site,
    changes_within,
)
from pytest_dlperf.report.page.markup import joined, name, render_page

INDEX: Final = "index.html"
SESSIONS: Final = "sessions.html"
COMPARE: Final = "compare.html"
CASES: Final = "case"
_PLAIN: Final = re.compile(r"[a-z0-9][a-z0-9._+-]{0,99}")
_ODD: Final = re.compile(r"[^a-z0-9._+-]+")


class ShownSeries(NamedTuple):
    """A series with what is known of it."""

    series: Series
    changes: tuple[Change, ...]
    acknowledged: tuple[Acknowledged, ...]
    last_word: LastWord | None

    @property
    def anchor(self) -> str:
        """The id of its section, the same in every site that has the series."""
        return f"series-{self.series.key[:10]}"

    @property
    def link(self) -> str:
        """The address of its section, from the site's folder."""
        return f"{case_page_name(self.series.case_id)}#{self.anchor}"

    @property
    def newest(self) -> Point:
        """The outcome that came last, whether it counts or not."""
        return self.series.points[-1]

    def accepted(self, change: Change) -> Acknowledged | None:
        """Return who accepted the level of ``change``, before there was another."""
        later = [
            later_change.time for later_change in self.changes if later_change.time > change.time
        ]
        until = min(later, default="~")  # behind every time
        fits = (level for level in self.acknowledged if change.time <= level.time < until)
        return next(fits, None)


def verdict_words(point: Point) -> str:
    """Return a verdict, and why its outcome does not count where it does not."""
    why = point.left_out if point.throughput is not None else ""
    return f"{point.verdict} ({why})" if why else point.verdict


def case_page_name(case_id: str) -> str:
    """Return the file of a case: its id, with a digest where a file cannot be named like that.

    It depends on the id alone, so that links last; two ids never share a file, also where
    capitals do not count.
    """
    if _PLAIN.fullmatch(case_id):
        return f"{CASES}/{case_id}.html"
    words = _ODD.sub("-", case_id.lower()).strip("-.")[:60]
    return f"{CASES}/{words or 'case'}~{_digest(case_id)}.html"


def shown_series(site: Site) -> list[ShownSeries]:
    """Return the series of a site with what is known of each."""
    last_words = {one.number: one for one in site.last_words}
    acknowledged: dict[tuple[str, str], list[Acknowledged]] = {}
    for level in site.acknowledged:
        acknowledged.setdefault((level.case_id, level.machine_class), []).append(level)
    return [
        ShownSeries(
            series=series,
            changes=changes_within(series, site.history.changes),
            acknowledged=tuple(acknowledged.get((series.case_id, series.machine_class), ())),
            last_word=last_words.get(series.points[-1].number),
        )
        for series in site.history.series
    ]


def site_page(title: str, above: str, body: Sequence[str], scripts: Sequence[str] = ()) -> str:
    """Return a page with the links to the others; ``above`` leads to the site's folder."""
    links = ((INDEX, "cases"), (SESSIONS, "sessions"), (COMPARE, "compare two sessions"))
    shown = " · ".join(f'<a href="{above}{file}">{words}</a>' for file, words in links)
    parts = [f"<header><nav>{shown}</nav><h1>{name(title)}</h1></header>", *body]
    return render_page(title=title, body=joined(parts), scripts=scripts)


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()[:10]
