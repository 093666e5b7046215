"""Who is told how a case goes on; ``live.py`` shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.run import RunSummary


class Watcher(Protocol):
    """Is told how a case goes on; ``live.py`` shows it."""

    def notice(self, case: Case, what: str) -> None:
        """Show why a case waits, or what could not be looked at."""
        ...

    def run_starts(self, case: Case, number: int, of: int) -> None:
        """Learn that run ``number`` of at least ``of`` is launched."""
        ...

    def tick(self, case: Case, workdir: Path) -> None:
        """Look at ``workdir``, which has the ranks' counters: some time has passed."""
        ...

    def run_ended(self, case: Case, run: RunSummary) -> None:
        """Take what a run measured."""
        ...

    def queued(self, name: str, words: str) -> None:
        """Learn how the job of a case, or of the probe, stands with its scheduler."""
        ...
