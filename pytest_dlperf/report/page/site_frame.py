"""What the pages of a site have in common: file names, and links between the pages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final

from pytest_dlperf.report.page.markup import joined, name, render_page
from pytest_dlperf.report.page.shown_series import ShownSeries

INDEX: Final = "index.html"
SESSIONS: Final = "sessions.html"
COMPARE: Final = "compare.html"
CASES: Final = "case"
_PLAIN: Final = re.compile(r"[a-z0-9][a-z0-9._+-]{0,99}")
_ODD: Final = re.compile(r"[^a-z0-9._+-]+")


def case_page_name(case_id: str) -> str:
    """Return the file of a case: its id, with a digest where a file cannot be named like that.

    It depends on the id alone, so that links last; two ids never share a file, also where
    capitals do not count.
    """
    if _PLAIN.fullmatch(case_id):
        return f"{CASES}/{case_id}.html"
    words = _ODD.sub("-", case_id.lower()).strip("-.")[:60]
    return f"{CASES}/{words or 'case'}~{_digest(case_id)}.html"


def series_link(shown: ShownSeries) -> str:
    """Return the address of a series' section, from the site's folder."""
    return f"{case_page_name(shown.series.case_id)}#{shown.anchor}"


def session_anchor(name: str) -> str:
    """Return the id of a session's row: it depends on the session's name alone."""
    return f"s{_digest(name)[:8]}"


def site_page(
    title: str, above: str, body: Sequence[str], *, where: str = "", scripts: Sequence[str] = ()
) -> str:
    """Return a page with the links to the others; ``above`` leads to the site's folder.

    ``where`` is the markup of the line under the heading; may be empty.
    """
    links = ((INDEX, "cases"), (SESSIONS, "sessions"), (COMPARE, "compare two sessions"))
    shown = " · ".join(f'<a href="{above}{file}">{words}</a>' for file, words in links)
    parts = [f"<header><nav>{shown}</nav><h1>{name(title)}</h1>{where}</header>", *body]
    return render_page(title=title, body=joined(parts), scripts=scripts)


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()[:10]
