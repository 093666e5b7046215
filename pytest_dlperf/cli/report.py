"""``dlperf report``: results files and published numbers become environments and tables."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pytest_dlperf.cli.parser import add_results
from pytest_dlperf.cli.stdout import json_text, say
from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.codec import encode
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.report import json_, markdown, pull_request
from pytest_dlperf.report.comparison_document import compare, comparison_document
from pytest_dlperf.report.document import to_text
from pytest_dlperf.report.environment_section import environment_blocks
from pytest_dlperf.report.scaling import scaling_grid
from pytest_dlperf.store.baseline.key import PUBLISHED
from pytest_dlperf.store.baseline.store import BaselineStore

#: Version of the JSON of ``--json``. 1: the first.
_JSON_FORMAT: Final = 1
_RENDER: Final = {"text": to_text, "md": markdown.render}
#: The verdicts in place of the tables: the comment that ``--dlperf-md`` writes.
_COMMENT: Final = "comment"
_FORMATS: Final = (*_RENDER, "html", _COMMENT)
_SUFFIXES: Final = {".md": "md", ".markdown": "md", ".html": "html", ".htm": "html"}
_DEFAULT_BASELINES: Final = Path("baselines")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_results(parser, nargs="+")
    parser.add_argument(
        "--compare",
        default="framework",
        metavar="FIELD",
        help="the columns: framework, driver, image, or any recorded field (framework)",
    )
    parser.add_argument(
        "--baselines",
        type=Path,
        metavar="DIR",
        help="folder with the published numbers (baselines/ here, if there is one)",
    )
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument(
        "--format",
        choices=_FORMATS,
        help="text, unless FILE ends in .md or .html; comment: the verdicts, as --dlperf-md",
    )
    formats.add_argument("--json", action="store_true", help="JSON in place of a format")
    # One of them says where the report goes
    places = parser.add_mutually_exclusive_group()
    places.add_argument("-o", dest="output", type=Path, metavar="FILE", help="write to FILE")
    places.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="write the page that --dlperf-html would have made of these sessions",
    )
    parser.set_defaults(run=_report)


def _report(arguments: argparse.Namespace) -> int:
    if made := make_report(arguments):
        say(made.removesuffix("\n"))
    return 0


def make_report(arguments: argparse.Namespace) -> str:
    """Return what is to be printed: the report, or nothing if it went to a file."""
    if arguments.html and (arguments.format or arguments.json):
        raise UsageError("--html writes a page; leave --format and --json out")
    outcomes = _outcomes(arguments.results)
    if arguments.format == _COMMENT:
        return _written(pull_request.render(outcomes), arguments.output)
    environments = environment_blocks(outcomes)
    output: Path | None = arguments.html or arguments.output
    # A session knows no published numbers: its page has them only where they are named
    is_of_session = arguments.html is not None and arguments.baselines is None
    published = () if is_of_session else _published(arguments.baselines)
    tables = compare(outcomes, published, arguments.compare)
    if arguments.json:
        values = {
            "format": _JSON_FORMAT,
            "environments": encode(environments),
            **encode(tables),
        }
        made = f"{json_text(values)}\n"
    else:
        name = "html" if arguments.html else ""
        name = name or arguments.format or _SUFFIXES.get(output.suffix if output else "", "text")
        document = comparison_document(environments, tables, scaling_grid(outcomes))
        if name == "html":
            # Only here: no other format needs what draws charts
            from pytest_dlperf.report.page.session_page import session_page

            made = session_page(outcomes, document)
        else:
            made = _RENDER[name](document)
    return _written(made, output)


def _written(made: str, output: Path | None) -> str:
    """Return ``made``, or nothing where it went to a file; raise ``UsageError``."""
    if output is None:
        return made
    try:
        output.write_text(made, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UsageError(f"{output}: cannot be written ({error.strerror})") from error
    return ""


def _outcomes(paths: Iterable[Path]) -> list[Outcome]:
    """Return the outcomes of all files as of one session; the same outcome counts once."""
    outcomes: list[Outcome] = []
    for path in paths:
        outcomes += [outcome for outcome in json_.read(path) if outcome not in outcomes]
    if not outcomes:
        raise UsageError("the results hold no outcome: nothing was run in that session")
    return outcomes


def _published(root: Path | None) -> list[Baseline]:
    if root is not None and not root.is_dir():
        raise UsageError(f"{root} is not a directory; name the baselines with --baselines=DIR")
    stored = BaselineStore(root or _DEFAULT_BASELINES).all()
    return [entry.baseline for entry in stored if entry.baseline.source.kind == PUBLISHED]
