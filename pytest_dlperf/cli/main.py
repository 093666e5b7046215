"""The console script ``dlperf``: finds the module of a command and calls it.

Results go to standard output, messages to standard error. Exit codes: 0 nothing failed, 1
something was refused or is missing, 2 wrong usage or unreadable input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from pytest_dlperf.core.errors import DlperfError

#: Module of this folder with ``add_arguments``, and help, of every command.
_COMMANDS: Final = {
    "doctor": ("doctor", "what is here to run on, and what is missing"),
    "baselines": ("baselines", "look at stored baselines, and accept new ones"),
    "report": ("report", "environments and tables of results files"),
    "extract": ("extract", "throughput from training logs, with what is odd about them"),
    "judge": ("judge", "the verdict on one training against another"),
    "audit": (
        "source_reports.audit",
        "which rule gets the numbers of a report's table from its logs",
    ),
    "compare": ("compare", "a training in two arms, run for run on this machine"),
    "explain": (
        "explain",
        "profile one case, to say what its steps consist of, or what made them slower",
    ),
    "bisect-environment": (
        "bisect_environment",
        "which package makes a case slower in another environment",
    ),
    "nodes": ("nodes", "which node is slow over all cases"),
    "history": ("history", "what the sessions measured, over months"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``dlperf`` and return its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
    except DlperfError as error:
        sys.stderr.write(f"dlperf: {error}\n")
        return 2
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dlperf", description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Command)
    for name, (module, text) in _COMMANDS.items():
        commands.add_parser(name, help=text).module = f"pytest_dlperf.cli.{module}"
    return parser


class Command(argparse.ArgumentParser):
    """The parser of a command, whose module is imported when the command is used."""

    module: str = ""

    def load(self) -> None:
        """Import the command's module, which adds its arguments."""
        if self.module:
            module, self.module = import_module(self.module), ""
            module.add_arguments(self)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the words of the command, once its arguments are known."""
        self.load()
        return super().parse_known_args(args, namespace)
