"""Parsers of commands and their actions, and arguments that several commands have."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

#: Exit code of wrong usage, and of input that cannot be read.
USAGE: Final = 2
#: What a share of the verdict's rule means, with what holds where it is not given.
_SHARES: Final = {
    "tolerance": "slowdown up to which a case passes, as 3%% or 0.03 ({tolerance})",
    "min-effect": "a slowdown below this is not a regression, as 2%% or 0.02 (1%%)",
    "alpha": "share of unchanged suites with a false alarm, as 1%% or 0.01 (5%%)",
}


class Command(argparse.ArgumentParser):
    """The parser of a command, whose module is imported when the command is used."""

    module: str = ""
    #: Of Python 3.14: argparse would write control sequences, which are escaped.
    color: bool

    def __init__(self, **words: Any) -> None:
        super().__init__(**words)
        self.color = False

    def load(self) -> None:
        """Import the command's module, which adds its arguments."""
        if self.module:
            module, self.module = import_module(self.module), ""
            module.add_arguments(self)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the words of the command, once its arguments are known."""
        self.load()
        # Of a command with actions it is the action's that stay
        self.set_defaults(own_options=frozenset(self._option_string_actions))
        return super().parse_known_args(args, namespace)


def add_actions(
    parser: argparse.ArgumentParser, metavar: str, parser_class: type[Command] = Command
) -> argparse._SubParsersAction[Any]:
    """Let one of several actions follow; where none does, the help is shown, as wrong usage."""

    def show_help(arguments: argparse.Namespace) -> int:
        parser.print_help(sys.stderr)
        return USAGE

    parser.set_defaults(run=show_help)
    return parser.add_subparsers(
        metavar=metavar, title=f"{metavar.lower()}s", parser_class=parser_class
    )


def add_shares(parser: argparse.ArgumentParser, *names: str, tolerance: str = "5%%") -> None:
    """Declare the shares ``names`` of the verdict's rule; ``tolerance`` says what it is else."""
    for name in names:
        text = _SHARES[name].format(tolerance=tolerance)
        parser.add_argument(f"--{name}", metavar="SHARE", help=text)


def add_workdir(parser: argparse.ArgumentParser, text: str) -> None:
    """Declare ``--workdir``; ``text`` says what it is."""
    parser.add_argument(
        "--workdir",
        type=Path,
        default=Path(".dlperf"),
        metavar="DIR",
        help=f"{text} (.dlperf here)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Declare ``--json``."""
    parser.add_argument("--json", action="store_true", help="JSON alone on standard output")


def add_results(parser: argparse.ArgumentParser, *, nargs: str, text: str = "") -> None:
    """Declare results files."""
    help_text = f"files of --dlperf-json{text}"
    parser.add_argument("results", nargs=nargs, type=Path, metavar="RESULTS", help=help_text)
