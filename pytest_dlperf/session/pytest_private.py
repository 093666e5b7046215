"""Uses of private names of pytest and pytest-xdist, but one in ``options.py``; tests hold them."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pytest

#: Stands in names for what is taken out of them; no word of ``-k`` can have it.
_NOTHING: Final = "?"
#: Begins the names of the fixtures that call ``setup_module``, ``setup_method`` and their like.
SETUP_FIXTURES: Final = "_xunit_"


def declared_names(parser: pytest.Parser) -> frozenset[str]:
    """Return the names of all options that were declared so far."""
    return frozenset(
        name
        for group in [parser._anonymous, *parser._groups]
        for option in group.options
        for name in option.names()
    )


def fixtures_of(item: pytest.Item) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the fixtures that a test names, and the file of every one that it has, by name."""
    info: Any = item._fixtureinfo  # type: ignore[attr-defined]
    files = {
        name: file_of(definitions[-1].func)
        for name, definitions in info.name2fixturedefs.items()
        if definitions
    }
    return tuple(info.argnames), files


def file_of(function: Callable[..., Any]) -> str:
    """Return the file that defines ``function``; empty for one that is not written in Python."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else str(code.co_filename)


def is_matched(item: pytest.Item, expression: str, *, without: str = "") -> bool:
    """Return whether ``-k expression`` selects ``item``; False for an invalid expression.

    ``without`` is taken out of the item's names, those of its file and folders included.
    """
    from _pytest.mark import KeywordMatcher
    from _pytest.mark import expression as keywords

    names = [name.lower() for name in KeywordMatcher.from_item(item)._names]
    if without:
        names = [name.replace(without, _NOTHING) for name in names]

    def matches(word: str, /, **_: object) -> bool:
        return any(word.lower() in name for name in names)

    try:
        return keywords.Expression.compile(expression).evaluate(matches)
    except (SyntaxError, getattr(keywords, "ParseError", SyntaxError)):  # that of pytest 8
        return False  # pytest itself reports it


def terminate(node: Any) -> None:
    """Send SIGTERM to a worker of pytest-xdist that is a process of this machine and lives."""
    popen = getattr(getattr(node.gateway, "_io", None), "popen", None)
    if popen is not None:
        with contextlib.suppress(OSError):
            popen.terminate()
