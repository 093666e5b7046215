"""Run a pytest session in a process of its own, and read what it measured."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import GOOD, Verdict

#: pytest's own: its options, the test or the first conftest.py are none.
USAGE: Final = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class EndedSession:
    """A session that has ended."""

    exit_code: int
    #: Of the cases that it selected; none where it made no results file.
    outcomes: tuple[Outcome, ...]


def run_session(
    words: Sequence[str], *, where: Path, python: str = "", on_stderr: bool = False
) -> EndedSession:
    """Run pytest with ``words`` in the folder ``where``, by ``python`` or this interpreter.

    What it writes is shown; on standard error alone with ``on_stderr``. Raises ``UsageError``
    where pytest did not begin, as it refused its options.
    """
    from pytest_dlperf.report import json_

    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.json"
        # Written by every session that begins, also where there is no such test
        began = Path(folder) / "began.xml"
        command = [python or sys.executable, "-m", "pytest", *words]
        # It is a question, whose answer is no session's result
        command += ["--dlperf-sink=off", f"--dlperf-json={results}", f"--junitxml={began}"]
        done = subprocess.run(
            command, cwd=where, check=False, stdout=sys.stderr if on_stderr else None
        )
        if done.returncode == USAGE and not began.exists():
            raise UsageError("pytest did not begin (see above): correct the options behind --")
        outcomes = json_.read(results) if results.exists() else ()
    return EndedSession(exit_code=done.returncode, outcomes=outcomes)


def selection(case: str) -> list[str]:
    """Return pytest's words that select one case: its node id, or ``-k`` for its own id."""
    return [case] if "::" in case else ["-k", f"[{case}]"]


def against_words(arm: str, share: float) -> list[str]:
    """Return the options that ask whether this side is slower than ``arm`` by more than a share.

    Slower for certain than the share, or for certain not: there is nothing between.
    """
    bounds = [f"--dlperf-tolerance={share:.6f}", f"--dlperf-min-effect={share:.6f}"]
    return [f"--dlperf-against={arm}", "--dlperf-history=off", *bounds]


def is_slower(outcome: Outcome) -> bool | None:
    """Return the answer of a session with ``against_words``; None where it is undecided."""
    verdict = outcome.judgement.speed_verdict
    if (outcome.against is not None and outcome.against.unaffected) or verdict in GOOD:
        return False
    return True if verdict is Verdict.REGRESSED else None
