"""The console script ``dlperf``: finds the module of a command and calls it.

Results go to standard output, messages to standard error.
"""

from __future__ import annotations

import argparse
import traceback
from collections.abc import Sequence
from typing import Final

from pytest_dlperf.cli.advice import in_words_of
from pytest_dlperf.cli.parser import USAGE, Command, add_actions
from pytest_dlperf.cli.stdout import escaped, say_error
from pytest_dlperf.cli.versions import ShowVersion
from pytest_dlperf.core.errors import DlperfError

#: Exit code where dlperf itself fails.
FAILURE: Final = 3

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
    with escaped():
        arguments = _parser().parse_args(argv)
        code: int
        try:
            code = arguments.run(arguments)
        except DlperfError as error:
            say_error(f"dlperf: {in_words_of(arguments, str(error))}")
            code = arguments.code_of_usage
        # Python would print it past what is escaped, and end with 1, as a failed verdict does
        except Exception:  # noqa: BLE001
            say_error(f"{traceback.format_exc()}dlperf: this is an error of dlperf itself")
            code = arguments.code_of_failure
    return code


def _parser() -> argparse.ArgumentParser:
    parser = Command(
        prog="dlperf",
        description="Works on what training performance tests left behind: baselines, results "
        "files, logs, histories. The tests themselves are run by pytest (pytest --help has the "
        "options --dlperf-...).",
        epilog="dlperf COMMAND --help shows what a command takes. Exit codes: 0 nothing failed, "
        "1 a verdict failed, or something was refused or is missing, 2 wrong usage or input that "
        "cannot be read, 3 an error of dlperf itself.",
    )
    parser.add_argument(
        "--version",
        action=ShowVersion,
        nargs=0,
        help="show the versions of pytest-dlperf, pytest and Python, and nothing else",
    )
    parser.set_defaults(code_of_usage=USAGE, code_of_failure=FAILURE)
    commands = add_actions(parser, "COMMAND")
    for name, (module, text) in _COMMANDS.items():
        commands.add_parser(name, help=text).module = f"pytest_dlperf.cli.{module}"
    return parser
