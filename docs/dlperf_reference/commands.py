"""The commands of ``dlperf``, from its parser."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dlperf_reference.markdown import code, table
from pytest_dlperf.cli.main import _parser
from pytest_dlperf.cli.parser import Command

if TYPE_CHECKING:
    from collections.abc import Iterator


def parsers() -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Yield name, help and parser of every command that does something, in order."""
    yield from _below(_parser(), "dlperf", "")


def _below(
    parser: argparse.ArgumentParser, name: str, text: str
) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    if isinstance(parser, Command):
        parser.load()
    groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not groups:
        yield name, text, parser
    for group in groups:
        helps = {choice.dest: choice.help or "" for choice in group._choices_actions}
        for word, child in group.choices.items():
            yield from _below(child, f"{name} {word}", helps.get(word, ""))


def rows(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Yield how each argument of a command is written, and what it means."""
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        formatter = argparse.HelpFormatter(parser.prog, width=10_000)
        written = formatter._format_action_invocation(action)
        help_text = "" if action.help is None else formatter._expand_help(action)
        if action.choices and not action.metavar:
            help_text = f"{help_text}: one of {', '.join(map(code, map(str, action.choices)))}"
        yield code(written), help_text


def text() -> str:
    """Return a section for every command."""
    parts = []
    for name, help_text, parser in parsers():
        sentence = f"{help_text[:1].upper()}{help_text[1:]}."
        parts.append(f"## `{name}`\n{sentence}\n\n{table(('argument', 'meaning'), rows(parser))}")
    return "\n".join(parts)
