"""A chart in a page, with a table of the same figures for readers without graphics."""

from __future__ import annotations

from typing import NamedTuple

from pytest_dlperf.report.page.chart import Chart
from pytest_dlperf.report.page.markup import Html, joined, text
from pytest_dlperf.report.page.svg import draw


class Drawn(NamedTuple):
    """A chart, what it shows in words, and a table of what is drawn."""

    chart: Chart
    caption: str
    numbers: Html


def figure(key: str, heading: str, drawn: Drawn | None) -> Html:
    """Return a chart under its heading; nothing where there is none."""
    if drawn is None:
        return Html("")
    return joined(
        [
            f'<figure data-chart="{text(key)}"><h3>{text(heading)}</h3>',
            f'<div class="chart">{draw(drawn.chart)}</div>',
            f"<figcaption>{text(drawn.caption)}</figcaption>",
            '<details class="numbers"><summary>Figures of this chart</summary>',
            f"{drawn.numbers}</details></figure>",
        ]
    )
