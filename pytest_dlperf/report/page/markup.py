"""Build HTML: text from outside is escaped here; a page's style, script and security policy."""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import Final, NewType

#: What may stand in a page as it is; mypy tells it from text that was not escaped.
Html = NewType("Html", str)
#: Characters that show nothing, or change how others are shown; a line's end is none.
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_KEPT: Final = frozenset("\n\t")
_PICTURES: Final = 0x2400
_PLAIN: Final = re.compile(r"[\n\t -~]*")
_HAN: Final = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
_KANA: Final = re.compile("[\u3040-\u30ff]")


def text(value: object) -> Html:
    """Return the markup of ``value``; what would not be seen is written as a picture or a code."""
    return Html(escape(visible(str(value))))


def visible(value: str) -> str:
    r"""Return ``value`` with unseen characters in writing: ESC as ``␛``, U+202E as ``\u202e``."""
    if _PLAIN.fullmatch(value):
        return value
    return "".join(map(_visible, value))


def name(value: object) -> Html:
    """Return a name from outside: its direction of writing does not reach its neighbours."""
    shown = str(value)
    return Html(f"<bdi{_language(shown)}>{text(shown)}</bdi>") if shown else Html("")


def paragraph(value: str, *, kind: str = "") -> Html:
    """Return a sentence; several lines are that many paragraphs."""
    lines = [line for line in value.splitlines() if line.strip()]
    kind = f' class="{escape(kind)}"' if kind else ""
    return joined(f'<p{kind} dir="auto"{_language(one)}>{text(one)}</p>' for one in lines)


def preformatted(value: str) -> Html:
    """Return lines as they are, such as those of a log."""
    return Html(f'<pre tabindex="0" dir="auto"{_language(value)}>{text(value)}</pre>')


def code(value: str) -> Html:
    """Return a command, or a path."""
    return Html(f"<code>{text(value)}</code>")


def joined(parts: Iterable[str]) -> Html:
    """Return pieces of markup, a line each."""
    return Html("\n".join(parts))


def _language(value: str) -> str:
    """Return the attribute by which a browser chooses Chinese rather than Japanese glyphs."""
    return ' lang="zh-Hans"' if _HAN.search(value) and not _KANA.search(value) else ""


def _visible(character: str) -> str:
    if character in _KEPT or unicodedata.category(character) not in _UNSEEN:
        return character
    point = ord(character)
    if point < 0x20:
        return chr(_PICTURES + point)
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"


def facts(pairs: Iterable[tuple[str, object]]) -> Html:
    """Return names and values from outside, as a list; nothing where there is none."""
    entries = [f"<dt>{text(key)}</dt><dd>{name(value)}</dd>" for key, value in pairs]
    return joined(["<dl>", *entries, "</dl>"]) if entries else Html("")


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
    sources = [_own(file) for file in ("page.js", *scripts)]
    allowed = " ".join(f"'{integrity(source)}'" for source in sources)
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
            *(f"<script>{source}</script>" for source in sources),
            "</body>\n</html>\n",
        ]
    )


def _own(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")
