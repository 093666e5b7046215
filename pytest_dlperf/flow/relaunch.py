"""Launches a run again where the infrastructure failed it; no verdict is ever repeated."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.run import Problem
from pytest_dlperf.measure.infrastructure import RETRIED, launch_failure
from pytest_dlperf.measure.records import read_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_dlperf.core.case import Case
    from pytest_dlperf.core.run import Run, RunSummary

#: Launches of one run at most: the first, and its repetitions.
_LAUNCHES: Final = 3
#: Before the first repetition, twice as long before the second: another's port may be free then.
_PAUSE_S: Final = 1.0
#: So much of a log's end is read.
_LOG_BYTES: Final = 65536


@dataclass(frozen=True, kw_only=True, slots=True)
class Launched:
    """A run, and the launches before it that the infrastructure failed."""

    run: Run
    #: Why each failed, with its log.
    failed: tuple[str, ...]
    #: Whether the run itself is one of them: no more are allowed.
    is_given_up: bool

    def noted(self, summary: RunSummary) -> RunSummary:
        """Return what the run measured, with a note of the launches before."""
        if not self.failed:
            return summary
        name = Path(self.run.plan.workdir).name
        note = Problem(code=RETRIED, message=f"{name} was launched again: {self._list}")
        return replace(summary, problems=(*summary.problems, note))

    def error(self, error: CaseError) -> CaseError:
        """Return the error of the run, with what became of the launches before."""
        if not self.failed or (self.is_given_up and len(self.failed) == 1):
            return error
        cause, _, rest = str(error).partition("\n")
        count = len(self.failed)
        words = (
            f"launched {count} times, and no rank came to its first step: {self._list}"
            if self.is_given_up
            else f"it was launched again before: {self._list}"
        )
        return CaseError(f"{cause.rstrip('.')}; {words}.\n{rest}")

    @property
    def _list(self) -> str:
        return "; ".join(self.failed)


def launch_anew(
    case: Case,
    launch: Callable[[], Run],
    *,
    is_allowed: Callable[[], bool],
    tell: Callable[[str], None],
) -> Launched:
    """Return the first launch of a run that the infrastructure did not fail, or the third.

    ``is_allowed`` says whether another one may be started; ``tell`` takes what is done. The folder
    of one that failed is kept beside the run's, as ``run1.failed1``.
    """
    failed: list[str] = []
    while True:
        run = launch()
        records = read_records(Path(run.plan.records))
        why = launch_failure(run, records, _end_of(run.log), is_program=bool(case.command))
        if not why:
            return Launched(run=run, failed=tuple(failed), is_given_up=False)
        if len(failed) + 1 == _LAUNCHES or not is_allowed():
            failed.append(f"{why} ({run.log})")
            return Launched(run=run, failed=tuple(failed), is_given_up=True)
        folder = Path(run.plan.workdir)
        log = _keep(folder) / Path(run.log).name
        failed.append(f"{why} ({log})")
        tell(f"{folder.name} is launched again ({len(failed) + 1} of {_LAUNCHES}): {why}")
        time.sleep(len(failed) * _PAUSE_S)


def _keep(folder: Path) -> Path:
    """Move a run's folder aside; return where it is."""
    number = 1
    while (kept := folder.with_name(f"{folder.name}.failed{number}")).exists():
        number += 1
    return folder.rename(kept)


def _end_of(log: str) -> str:
    try:
        with Path(log).open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _LOG_BYTES))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""  # nothing was written: the run's own error says why


def merged(problems: Iterable[Problem]) -> dict[str, Problem]:
    """Return problems of several runs by their code, with all notes of repeated launches."""
    found: dict[str, Problem] = {}
    for problem in problems:
        before = found.get(problem.code)
        if before is not None and problem.code == RETRIED:
            problem = replace(problem, message=f"{before.message}; {problem.message}")
        found[problem.code] = problem
    return found
