"""Everything that leans on pytest's private names; a test fails when pytest moves them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest

#: Stands in names for what is taken out of them; no word of ``-k`` can have it.
_NOTHING: Final = "?"

#: Options without our prefix. Many conftest files declare ``--gpus`` themselves, and a second
#: declaration would kill pytest: they are never declared, but rewritten where nobody owns them.
SHORT_OPTIONS: Final = ("--gpus", "--cpus", "--update-baselines")


def rewrite_short_options(parser: pytest.Parser, args: list[str]) -> tuple[str, ...]:
    """Rewrite our short options in ``args`` in place; return those that somebody else owns."""
    declared = {
        name
        for group in [parser._anonymous, *parser._groups]
        for option in group.options
        for name in option.names()
    }
    owned = tuple(name for name in SHORT_OPTIONS if name in declared)
    end = args.index("--") if "--" in args else len(args)
    for index, argument in enumerate(args[:end]):
        name, equals, value = argument.partition("=")
        if name in SHORT_OPTIONS and name not in owned:
            args[index] = f"--dlperf{name[1:]}{equals}{value}"
    return owned


def is_matched(item: pytest.Item, expression: str, *, without: str = "") -> bool:
    """Return whether ``-k expression`` selects ``item``; False for what is no expression.

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
        return False  # pytest itself tells of it
