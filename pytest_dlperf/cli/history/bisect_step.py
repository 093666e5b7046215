"""``dlperf history bisect-step``: the exit code for ``git bisect run``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from pytest_dlperf.cli.pytest_session import against_words, is_slower, run_session
from pytest_dlperf.cli.stdout import say_error
from pytest_dlperf.core.arm import RefArm, parse_arm
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.quantity import parse_share
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.launch.arms.git import commit_of, top_of

NAME: Final = "bisect-step"
#: Exit codes as ``git bisect run`` reads them: the old state, the new one, cannot be tested, and
#: any above 127, which ends the bisection.
OLD, NEW, SKIP, STOP = 0, 1, 125, 129


def add_to(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of ``dlperf history``."""
    step = actions.add_parser(
        NAME,
        help="for git bisect run: whether this commit is slower than another",
        description="Measures one test in pairs, the working tree against a commit. Exit codes: "
        f"{OLD} not slower, {NEW} slower, {SKIP} undecided, {STOP} wrong usage.",
        usage="%(prog)s [-h] --against COMMIT --limit SHARE [--faster] [--folder DIR] -- TEST "
        "[OPTION ...]",
    )
    step.add_argument("--against", required=True, metavar="COMMIT", help="measured in turn")
    step.add_argument(
        "--limit", required=True, metavar="SHARE", help="slower by more is the new state"
    )
    step.add_argument(
        "--faster", action="store_true", help="COMMIT is of the new, fast state: not slower is new"
    )
    step.add_argument("--folder", default="", metavar="DIR", help="where pytest runs, if not here")
    step.add_argument(
        "words", nargs="+", metavar="-- TEST", help="pytest's node id of one case, and its options"
    )
    step.set_defaults(run=_step, code_of_usage=STOP, code_of_failure=STOP)


def _step(arguments: argparse.Namespace) -> int:
    try:
        share = parse_share(arguments.limit, what="--limit")
        arm = parse_arm(arguments.against, what="--against")
        if isinstance(arm, RefArm):
            commit_of(top_of(Path.cwd()), arm)
        folder = Path(arguments.folder)
        if not folder.is_dir():
            _print_to_stderr(f"this commit has no folder {folder}, so it cannot be tested")
            return SKIP
        outcomes = _measure(arguments, share, folder)
    except KeyboardInterrupt:
        return STOP
    if len(outcomes) != 1:
        _print_to_stderr(
            f"{len(outcomes)} cases were measured, and not one; this commit cannot be tested"
        )
        return SKIP
    return code_of(outcomes[0], faster=arguments.faster)


def _measure(arguments: argparse.Namespace, share: float, where: Path) -> tuple[Outcome, ...]:
    """Return the outcomes of a session; none where it made no results file.

    Raises ``UsageError`` where pytest refuses its options: every commit would be passed over.
    """
    words = [*arguments.words, *against_words(arguments.against, share)]
    try:
        return run_session(words, where=where).outcomes
    except UsageError as error:
        raise UsageError(
            f"{error}; where the conftest.py of this commit alone is broken, git bisect skip "
            "passes over it"
        ) from error


def code_of(outcome: Outcome, *, faster: bool) -> int:
    """Return the exit code for ``git bisect run`` after a measured commit, and print why."""
    verdict = outcome.judgement.speed_verdict
    answer = is_slower(outcome)
    if answer is not None:
        _print_to_stderr("slower" if answer else f"not slower ({verdict})")
        return NEW if answer is not faster else OLD
    remedy = ""
    if verdict is Verdict.INCONCLUSIVE:
        remedy = "; --dlperf-max-runs=40 behind the test allows more pairs"
    _print_to_stderr(f"{verdict}: undecided at this commit{remedy}")
    return SKIP


def _print_to_stderr(words: str) -> None:
    say_error(f"dlperf history {NAME}: {words}")
