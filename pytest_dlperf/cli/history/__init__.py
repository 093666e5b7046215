"""``dlperf history``: the measurements of sessions over months."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from pytest_dlperf.cli.history import bisect_step, move, show, site


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of the command."""
    actions: argparse._SubParsersAction[argparse.ArgumentParser] = parser.add_subparsers(
        required=True, metavar="ACTION", parser_class=_Parser
    )
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
    bisect_step.add_to(actions)


class _Parser(argparse.ArgumentParser):
    """Ends the step of a bisection by a code that stops it: git takes 2 for a bad commit."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        self.print_usage()
        code = bisect_step.STOP if self.prog.endswith(bisect_step.NAME) else 2
        self.exit(code, f"{self.prog}: error: {message}\n")
