"""Where a chart stands in a page, with the same figures for those who do not see it."""

from __future__ import annotations

from html import escape

from pytest_dlperf.report.page.markup import Html, joined, text


def figure(key: str, caption: str, numbers: Html) -> Html:
    """Return the place of the chart ``key`` of the page.

    ``caption`` says what is to be seen; ``numbers`` is a table of what is drawn.
    """
    return joined(
        [
            f'<figure data-chart="{escape(key)}">',
            '<div class="chart"></div>',
            f"<figcaption>{text(caption)}</figcaption>",
            f"<details class=numbers><summary>Figures of this chart</summary>{numbers}</details>",
            "</figure>",
        ]
    )
