"""``dlperf history``: the measurements of sessions over months."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from pytest_dlperf.cli.history import bisect_step, move, show, site
from pytest_dlperf.cli.parser import USAGE, Command, add_actions
from pytest_dlperf.core.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of the command."""
    actions = add_actions(parser, "ACTION", _Action)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--history",
        metavar="URL|FILE",
        help="where it is (DLPERF_HISTORY, else dlperf_history of the ini file, else "
        ".dlperf/history.sqlite here)",
    )
    show.add_to(actions, common)
    move.add_to(actions, common)
    site.add_to(actions, common)
    for action in actions.choices.values():
        action.set_defaults(run=partial(_run_with_database, action.get_default("run")))
    bisect_step.add_to(actions)  # it reads no history


def _run_with_database(run: Callable[[argparse.Namespace], int], words: argparse.Namespace) -> int:
    """Run an action, once it is known that histories can be read here."""
    try:
        import sqlalchemy  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"dlperf history needs SQLAlchemy, which cannot be imported ({error}); pip install "
            "'pytest-dlperf[history]'"
        ) from error
    return run(words)


class _Action(Command):
    """Ends the step of a bisection by a code that stops it: git takes 2 for a bad commit."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        arguments, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return arguments, unknown

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        code = self.get_default("code_of_usage") or USAGE
        self.exit(code, f"{self.prog}: error: {message}\n")
