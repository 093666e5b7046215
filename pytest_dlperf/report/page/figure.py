"""A chart in a page, with a table of the same figures for readers without graphics.

A chart and its figures are unpacked when they are seen: as markup, those of 200 cases would be
half of the page.
"""

from __future__ import annotations

from html import escape
from typing import Any, NamedTuple, TypeAlias

from pytest_dlperf.report.page.markup import Html, joined, text

#: A specification of Vega-Lite; its width is that of the page where it has none.
ChartSpec: TypeAlias = "dict[str, Any]"


class Drawn(NamedTuple):
    """A chart, what it shows in words, and a table of what is drawn."""

    spec: ChartSpec
    caption: str
    numbers: Html


class ChartBook:
    """The charts of a page, by key; the same key may be placed several times."""

    def __init__(self) -> None:
        self.charts: dict[str, Drawn] = {}

    def place(self, key: str, heading: str, drawn: Drawn | None) -> Html:
        """Return the place of a chart under its heading; nothing where there is none."""
        if drawn is None:
            return Html("")
        self.charts[key] = drawn
        return joined(
            [
                f'<figure data-chart="{escape(key)}"><h3>{text(heading)}</h3>',
                '<div class="chart"></div>',
                f"<figcaption>{text(drawn.caption)}</figcaption>",
                '<details class="numbers"><summary>Figures of this chart</summary><div></div>'
                "</details></figure>",
            ]
        )
