"""``dlperf explain CASE``: profile the steps of one case, to say what they consist of."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from pytest_dlperf.cli.parser import add_json
from pytest_dlperf.cli.pytest_session import run_session, selection
from pytest_dlperf.cli.stdout import say_error, say_json
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.outcome import Outcome, results_to_json
from pytest_dlperf.core.verdict import BAD

#: pytest's own: no test was selected.
_NOTHING: Final = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.usage = "dlperf explain [-h] [--against ARM] [--json] CASE [-- WORDS ...]"
    parser.description = (
        "Measures and judges the case in a pytest session, and then profiles it, as a session "
        "does that always explains. Exit codes: 0 it is explained, 1 it is not, or its verdict "
        "fails, 2 wrong usage."
    )
    parser.add_argument("case", metavar="CASE", help="case id, or pytest's node id of it")
    parser.add_argument(
        "--against",
        metavar="ARM",
        help="profile both arms of pairs (--dlperf-against), rather than this tree alone",
    )
    add_json(parser)
    parser.add_argument(
        "words", nargs="*", metavar="-- WORDS", help="more for pytest: paths and options"
    )
    parser.set_defaults(run=_explain)


def _explain(arguments: argparse.Namespace) -> int:
    pytest_words = [*selection(arguments.case), *arguments.words, "--dlperf-explain=always"]
    if arguments.against:
        pytest_words.append(f"--dlperf-against={arguments.against}")
    session = run_session(pytest_words, where=Path.cwd(), on_stderr=arguments.json)
    if session.exit_code == _NOTHING or not session.outcomes:
        raise UsageError(
            f"no case {arguments.case} was measured (see above); pytest --dlperf-list names the "
            "cases that run here, and words behind -- say where the tests are: -- perf_tests"
        )
    if arguments.json:
        say_json(results_to_json(list(session.outcomes)))
    unexplained = [outcome for outcome in session.outcomes if not _is_explained(outcome)]
    for outcome in unexplained:
        say_error(f"dlperf explain: {outcome.case.id}: {_why_not(outcome)}")
    failed = any(outcome.judgement.verdict in BAD for outcome in session.outcomes)
    return 1 if unexplained or failed or session.exit_code else 0


def _is_explained(outcome: Outcome) -> bool:
    return outcome.explanation is not None and bool(outcome.explanation.parts)


def _why_not(outcome: Outcome) -> str:
    if outcome.explanation is not None and outcome.explanation.note:
        return outcome.explanation.note
    return f"it was not profiled: {outcome.judgement.verdict}"
