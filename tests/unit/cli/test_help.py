"""What ``dlperf`` says of itself to somebody who has just installed it."""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import platform
import re
from collections.abc import Iterator

import pytest

from pytest_dlperf import cli
from pytest_dlperf.cli.main import _parser
from pytest_dlperf.cli.parser import Command

#: What a value is where an option is not given, at the end of its help.
DEFAULT = re.compile(r"\([^()]+\)$")


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and all below it."""
    if isinstance(parser, Command):
        parser.load()
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from parsers(child)


def arguments() -> Iterator[tuple[str, argparse.Action]]:
    """Yield every argument of every command, with the words that name it."""
    for parser in parsers(_parser()):
        for action in parser._actions:
            if not isinstance(action, argparse._SubParsersAction | argparse._HelpAction):
                name = action.option_strings[-1] if action.option_strings else action.dest
                yield f"{parser.prog} {name}", action


ARGUMENTS = dict(arguments())


def test_every_argument_has_help() -> None:
    assert len(ARGUMENTS) > 100
    assert not [name for name, action in ARGUMENTS.items() if not action.help]


def test_help_shows_what_holds_where_an_option_is_not_given() -> None:
    """Of options with a default, and of shares, whose default is that of the verdict's rule."""
    lacking = [
        name
        for name, action in ARGUMENTS.items()
        if action.option_strings
        and action.nargs is None
        and not action.required
        and (action.default or action.metavar == "SHARE")
        and not DEFAULT.search(action.help or "")
    ]
    assert lacking == []


def test_positional_arguments_have_one_name_each() -> None:
    named: dict[str, set[object]] = {}
    for name, action in ARGUMENTS.items():
        if not action.option_strings:
            assert isinstance(action.metavar, str), name
            assert action.metavar.removeprefix("-- ").isupper(), name
            named.setdefault(action.metavar, set()).add(action.dest)
    assert {"RESULTS", "CASE", "LOG", "PATH"} <= set(named)
    assert all(len(names) == 1 for names in named.values()), named


def test_dlperf_introduces_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "console script" not in text
    assert "pytest" in text
    assert "Exit codes" in text


@pytest.mark.parametrize("words", [[], ["baselines"], ["history"]], ids=" ".join)
def test_without_a_command_the_help_is_shown(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert cli.main(words) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.startswith("usage: dlperf")
    assert "show this help message" in written.err


@pytest.mark.parametrize("words", [["--version"], ["doctor"]], ids=" ".join)
def test_versions_are_shown(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    with contextlib.suppress(SystemExit):
        cli.main(words)
    ours, of_pytest = map(importlib.metadata.version, ("pytest-dlperf", "pytest"))
    line = f"pytest-dlperf {ours}, pytest {of_pytest}, Python {platform.python_version()}"
    assert line in capsys.readouterr().out
