"""Shows how a case goes on: one line that moves on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from pytest_dlperf.measure.records import read_progress
from pytest_dlperf.report import figures

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

    from pytest_dlperf.core.case import Case
    from pytest_dlperf.core.run import RunSummary


class Silent:
    """Shows nothing: for xdist workers, whose output nobody sees, and for ``-q``."""

    def waiting(self, case: Case, holder: str) -> None:
        """Do nothing."""

    def run_starts(self, case: Case, number: int, of: int) -> None:
        """Do nothing."""

    def tick(self, case: Case, workdir: Path) -> None:
        """Do nothing."""

    def run_ended(self, case: Case, run: RunSummary) -> None:
        """Do nothing."""


class Live:
    """Writes to pytest's terminal, past its capture of output."""

    def __init__(self, config: pytest.Config) -> None:
        reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        self._reporter = reporter
        self._capture: Any = config.pluginmanager.get_plugin("capturemanager")
        self._moving = bool(self._reporter.isatty)
        self._number, self._of = 0, 0
        self._started_s = 0.0
        self._run_s: float | None = None
        self._place = (0, 0.0)

    def waiting(self, case: Case, holder: str) -> None:
        """Say who holds the host."""
        self._line(f"{case.id}: waiting for this host, held by {holder}")

    def run_starts(self, case: Case, number: int, of: int) -> None:
        """Remember which run this is."""
        self._number, self._of = number, max(number, of)
        self._started_s = time.monotonic()
        self._place = (0, 0.0)
        if self._moving:
            self._rewrite(f"{self._title(case)} starting")

    def tick(self, case: Case, workdir: Path) -> None:
        """Show iteration, rate and time left."""
        if not self._moving:
            return
        iterations = min((p.iterations for p in read_progress(workdir)), default=-1)
        if iterations < 0:
            self._rewrite(f"{self._title(case)} starting")
            return
        before, at_s = self._place
        now_s = time.monotonic()
        rate = ""
        if iterations > before and at_s:
            step_s = (now_s - at_s) / (iterations - before)
            rate = (
                f" {figures.rate(case.global_batch_size / step_s)} {case.unit}/s"
                f"{self._time_left(case, iterations, step_s)}"
            )
        if iterations != before:
            self._place = (iterations, now_s)
        self._rewrite(
            f"{self._title(case)} iteration {iterations}/{case.protocol.iterations}{rate}"
        )

    def run_ended(self, case: Case, run: RunSummary) -> None:
        """Say what a run measured."""
        self._run_s = time.monotonic() - self._started_s
        if self._moving:
            self._rewrite(f"{self._title(case)} {figures.rate(run.throughput)} {case.unit}/s")
            return
        disturbed = f"; does not count: {run.disturbed}" if run.disturbed else ""
        self._line(
            f"{self._title(case)}: {figures.rate(run.throughput)} {case.unit}/s "
            f"in {figures.duration(run.elapsed_s)}{disturbed}"
        )

    def _title(self, case: Case) -> str:
        return f"{case.id} run {self._number}/{self._of}"

    def _time_left(self, case: Case, iterations: int, step_s: float) -> str:
        left_s = (case.protocol.iterations - iterations) * step_s
        if self._run_s is not None:
            left_s += (self._of - self._number) * self._run_s
        return f", {figures.duration(left_s)} left"

    @contextlib.contextmanager
    def _uncaptured(self) -> Iterator[None]:
        if self._capture is None:
            yield
            return
        with self._capture.global_and_fixture_disabled():
            yield

    def _line(self, text: str) -> None:
        with self._uncaptured():
            self._reporter.ensure_newline()
            self._reporter.write_line(text)

    def _rewrite(self, text: str) -> None:
        with self._uncaptured():
            self._reporter.rewrite(text, erase=True)
            self._reporter.flush()
