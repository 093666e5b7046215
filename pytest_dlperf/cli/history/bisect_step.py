"""``dlperf history bisect-step``: the exit code for ``git bisect run``."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from pytest_dlperf.core.arm import RefArm, parse_arm
from pytest_dlperf.core.errors import DlperfError, UsageError
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.quantity import parse_share
from pytest_dlperf.core.verdict import GOOD, Judgement, Verdict
from pytest_dlperf.launch.arms.git import commit_of, top_of

NAME: Final = "bisect-step"
#: Exit codes as ``git bisect run`` reads them: the old state, the new one, cannot be tested, and
#: any above 127, which ends the bisection.
OLD, NEW, SKIP, STOP = 0, 1, 125, 129
#: pytest's own: its options, the test or the first conftest.py are none.
_USAGE: Final = 4


def add_to(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of ``dlperf history``."""
    step = actions.add_parser(
        NAME,
        help="for git bisect run: whether this commit is slower than another",
        description="Measures one test in pairs, the working tree against a commit. Exit codes: "
        f"{OLD} not slower, {NEW} slower, {SKIP} it does not tell, {STOP} wrong usage.",
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
    step.set_defaults(run=_step)


def _step(arguments: argparse.Namespace) -> int:
    try:
        share = parse_share(arguments.limit, what="--limit")
        arm = parse_arm(arguments.against, what="--against")
        if isinstance(arm, RefArm):
            commit_of(top_of(Path.cwd()), arm)
        folder = Path(arguments.folder)
        if not folder.is_dir():
            _tell(f"this commit has no folder {folder}, so it cannot be tested")
            return SKIP
        outcomes = _measure(arguments, share, folder)
    except KeyboardInterrupt:
        return STOP
    except DlperfError as error:
        sys.stderr.write(f"dlperf: {error}\n")
        return STOP
    if len(outcomes) != 1:
        _tell(f"{len(outcomes)} cases were measured, and not one; this commit cannot be tested")
        return SKIP
    return code_of(outcomes[0], faster=arguments.faster)


def _measure(arguments: argparse.Namespace, share: float, where: Path) -> tuple[Outcome, ...]:
    """Return the outcomes of a session; none where it made no results file.

    Raises ``UsageError`` where pytest refuses its options: every commit would be passed over.
    """
    from pytest_dlperf.report import json_

    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.json"
        command = [sys.executable, "-m", "pytest", *arguments.words]
        command += [f"--dlperf-against={arguments.against}", f"--dlperf-json={results}"]
        # Slower for certain than the limit, or for certain not: there is nothing between
        command += [f"--dlperf-tolerance={share:.6f}", f"--dlperf-min-effect={share:.6f}"]
        # Written by every session that begins, also where this commit has no such test
        began = Path(folder) / "began.xml"
        command += ["--dlperf-history=off", "--dlperf-sink=off", f"--junitxml={began}"]
        done = subprocess.run(command, cwd=where, check=False)
        if done.returncode == _USAGE and not began.exists():
            raise UsageError(
                "pytest did not begin (see above): correct the options behind --; where the "
                "conftest.py of this commit alone is broken, git bisect skip passes over it"
            )
        return json_.read(results) if results.exists() else ()


def code_of(outcome: Outcome, *, faster: bool) -> int:
    """Return the exit code for ``git bisect run`` after a measured commit, and print why."""
    verdict = _of_speed(outcome.judgement)
    same = outcome.against is not None and outcome.against.unaffected
    if same or verdict in GOOD:
        _tell(f"not slower ({verdict})")
        return NEW if faster else OLD
    if verdict is Verdict.REGRESSED:
        _tell("slower")
        return OLD if faster else NEW
    remedy = ""
    if verdict is Verdict.INCONCLUSIVE:
        remedy = "; --dlperf-max-runs=40 behind the test allows more pairs"
    _tell(f"{verdict}: this commit does not tell{remedy}")
    return SKIP


def _of_speed(judgement: Judgement) -> Verdict:
    """Return the verdict without that of memory and CPU time, which no series is made of."""
    if judgement.verdict is not Verdict.REGRESSED:
        return judgement.verdict
    window = judgement.metrics.get("whole_window")
    found = [one.verdict for one in (judgement.throughput, window) if one is not None]
    order = (Verdict.REGRESSED, Verdict.INCONCLUSIVE, *GOOD)
    return next((verdict for verdict in order if verdict in found), Verdict.INCONCLUSIVE)


def _tell(words: str) -> None:
    sys.stderr.write(f"dlperf history {NAME}: {words}\n")
