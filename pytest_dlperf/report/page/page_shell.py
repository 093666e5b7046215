"""Assemble a whole page: style, script, and its content security policy."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import Final

from pytest_dlperf.report.page.markup import Html, text


def integrity(script: str) -> str:
    """Return the hash by which a page's policy lets a script run."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode('ascii')}"


_NOSCRIPT: Final = (
    '<noscript><p class="quiet">Sorting and filters need JavaScript; everything else is here '
    "without it.</p></noscript>\n"
)


def render_page(*, title: str, body: Html, scripts: Sequence[str] = ()) -> str:
    """Return one file that loads no other and needs no network.

    ``body`` is what is within ``main``; ``scripts`` are files of this folder that it needs in
    addition to the one of all pages.
    """
    style = _own("page.css")
    sources = [_own(one) for one in ("page.js", *scripts)]
    allowed = " ".join(f"'{integrity(one)}'" for one in sources)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{text(title)}</title>\n<style>{style}</style>\n</head>\n<body>",
            '<a class="skip" href="#main">Skip to the content</a>',
            f'<main id="main" tabindex="-1">\n{_NOSCRIPT}{body}\n</main>',
            *(f"<script>{one}</script>" for one in sources),
            "</body>\n</html>\n",
        ]
    )


def _own(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")
