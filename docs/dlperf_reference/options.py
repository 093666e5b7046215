"""Options and ini keys, from what pytest is told of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dlperf_reference.markdown import code, table
from pytest_dlperf.session.options import SHORT_OPTIONS, add_ini_keys, add_options

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Parser:
    """Takes what ``add_options`` declares, as pytest's parser and its group do."""

    def __init__(self) -> None:
        self.options: list[tuple[str, dict[str, Any]]] = []
        self.inis: list[tuple[str, str, str]] = []

    def getgroup(self, *_: str) -> _Parser:
        return self

    def addoption(self, name: str, **keywords: Any) -> None:
        self.options.append((name, keywords))

    def addini(self, name: str, text: str, kind: str = "string", **_: Any) -> None:
        self.inis.append((name, text, kind))


def _declared() -> _Parser:
    parser: Any = _Parser()
    add_ini_keys(parser)
    add_options(parser)
    return parser  # type: ignore[no-any-return]


def _rows() -> Iterator[tuple[str, str]]:
    for name, keywords in _declared().options:
        short = f"--{name.removeprefix('--dlperf-')}"
        names = [name, short] if short in SHORT_OPTIONS else [name]
        value = f"={keywords['metavar']}" if "metavar" in keywords else ""
        text = keywords["help"].replace("%%", "%")
        if keywords.get("action") == "append":
            text += "; may be given several times"
        yield ", ".join(code(each + value) for each in names), text


def text() -> str:
    """Return the table of the options of pytest."""
    return table(("option", "meaning; the default in brackets"), _rows())


def ini_text() -> str:
    """Return the table of the keys of pytest's ini file."""
    rows = [(code(name), kind, text) for name, text, kind in _declared().inis]
    return table(("key", "type", "meaning"), rows)
