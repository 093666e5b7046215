"""Interface to follow the progress of cases; ``session/terminal/progress.py`` shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.run import RunSummary

#: The words of a trace or a profile that begins.
STARTING: Final = "starting"


class Watcher(Protocol):
    """Follows the progress of cases."""

    def notice(self, case: Case, what: str) -> None:
        """Show why a case waits, or what could not be looked at."""
        ...

    def run_starts(self, case: Case, number: int, of: int, version: str = "") -> None:
        """Note that run ``number`` of at least ``of`` is launched, and of which version of two."""
        ...

    def tick(self, case: Case, workdir: Path) -> None:
        """Read the ranks' progress counters in ``workdir``; called four times a second."""
        ...

    def traces(self, case: Case, number: int, of: int, words: str) -> None:
        """Show how far trace ``number`` of so many has come, in its own words."""
        ...

    def profiles(self, case: Case, number: int, of: int, words: str) -> None:
        """Show how far launch ``number`` of so many with a profile has come."""
        ...

    def run_ended(self, case: Case, run: RunSummary) -> None:
        """Note what a run measured."""
        ...

    def confirms(self, case: Case, against: str) -> None:
        """Note that stored sessions left ``case`` open, and pairs with ``against`` follow."""
        ...

    def place(self) -> str:
        """Return which run is going on, and how far it has come; empty if none is."""
        ...

    def queued(self, name: str, words: str) -> None:
        """Note the state of the job of a case, or of the probe, in its scheduler; or of an arm."""
        ...
