"""A page, whole: style, script, charts, and the policy that lets nothing else in."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Final

from pytest_dlperf.report.page.charts import integrity, library, packed, packed_charts
from pytest_dlperf.report.page.markup import Html, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_dlperf.report.page.figure import Drawn

_NOSCRIPT: Final = (
    "<noscript><p>Charts, sorting and filters need JavaScript; every verdict and figure of the "
    "tables is here without it.</p></noscript>\n"
)


def render_page(*, title: str, body: Html, charts: Mapping[str, Drawn]) -> str:
    """Return one file that needs no other and no network.

    ``body`` is what stands within ``main``; the charts are those of a ``ChartBook``, which has
    put their places into it. Raises ``UsageError`` where the charting library is not installed.
    """
    script, style = _own("page.js"), _own("page.css")
    scripts = library() if charts else []
    allowed = " ".join(f"'{integrity(one)}'" for one in (script, *scripts))
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    blocks = [_block("library", packed(one)) for one in scripts]
    if charts:
        blocks.append(_block("charts", packed_charts(charts)))
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{text(title)}</title>\n<style>{style}</style>\n</head>\n<body>",
            '<a class="skip" href="#main">Skip to the content</a>',
            f'<main id="main" tabindex="-1">\n{_NOSCRIPT if charts else ""}{body}\n</main>',
            *blocks,
            f"<script>{script}</script>\n</body>\n</html>\n",
        ]
    )


def _block(kind: str, content: str) -> str:
    return f'<script type="application/octet-stream" data-block="{kind}">{content}</script>'


def _own(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")
