"""``dlperf bisect-environment``: which package makes a case slower in another environment."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

NAME: Final = "bisect-environment"
_LIMIT: Final = "3%"


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of ``dlperf``."""
    bisect = commands.add_parser(
        NAME,
        usage=f"dlperf {NAME} [-h] --a A --b B [--limit SHARE] [--budget TIME] CASE "
        "[-- WORDS ...]",
        help="which package makes a case slower in another environment",
        description="Measures the case in pairs: A with some packages of B, against A. The same "
        "command goes on where it was ended. Exit codes: 0 it is found, 1 it is not, 2 wrong "
        "usage.",
    )
    for name, of in (("a", "the fast environment"), ("b", "the slow one")):
        bisect.add_argument(
            f"--{name}",
            required=True,
            metavar=name.upper(),
            help=f"{of}: an interpreter, or a file of requirements that ends in .txt",
        )
    bisect.add_argument(
        "--limit", default=_LIMIT, metavar="SHARE", help="what is slower by more counts (3%%)"
    )
    bisect.add_argument("--budget", metavar="TIME", help="such as 2h: no comparison begins after")
    bisect.add_argument(
        "--workdir", type=Path, default=Path(".dlperf"), metavar="DIR", help="where it is kept"
    )
    bisect.add_argument("case", metavar="CASE", help="case id, or pytest's node id of it")
    bisect.add_argument(
        "words", nargs="*", metavar="-- WORDS", help="more for pytest: paths and options"
    )
    bisect.set_defaults(run=_bisect)


def _bisect(arguments: argparse.Namespace) -> int:
    from pytest_dlperf.cli.environment_bisection import bisect

    return bisect(arguments)
