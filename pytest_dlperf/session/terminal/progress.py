"""Live progress of a case: one moving line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.flow.log_unit import known_unit
from pytest_dlperf.flow.watcher import STARTING
from pytest_dlperf.measure.records import read_progress
from pytest_dlperf.report import figures
from pytest_dlperf.report.printable import clipped, columns, shortened, shown
from pytest_dlperf.session.estimate import Forecast
from pytest_dlperf.session.exits import write_line

if TYPE_CHECKING:
    import pytest

#: Columns that an id keeps on a narrow terminal.
_ID: Final = 16
#: Seconds between two lines about a trace or a profile, where no line moves.
_TOLD_EVERY_S: Final = 10.0
#: Seconds between two lines about a run, where no line moves: most runs end before the first.
_RUN_TOLD_EVERY_S: Final = 60.0


class Quiet:
    """Says only what holds a case up: for xdist workers, and for ``-q``.

    To pytest's terminal, past its capture of output; where a process has none, as xdist workers
    have not, to the standard error that it shares with the process that started it.
    """

    def __init__(self, config: pytest.Config, worker: str = "") -> None:
        """``worker`` is the name of a process of pytest-xdist; empty for one with a terminal."""
        plugins = config.pluginmanager
        # A worker has one as well, which writes to nowhere.
        self._reporter: Any = None if worker else plugins.get_plugin("terminalreporter")
        self._capture: Any = plugins.get_plugin("capturemanager")
        self._who = f"[{worker}] " if worker else ""
        #: The run that was launched last, in words; empty before the first and between runs.
        self._run = ""
        self._records: Path | None = None

    def notice(self, case: Case, what: str) -> None:
        """Say it."""
        self._line(f"{self._who}{case.id}: {what}")

    def expect(self, forecast: Forecast) -> None:
        """Do nothing."""

    def confirms(self, case: Case, against: str) -> None:
        """Do nothing."""

    @contextlib.contextmanager
    def watched(self, case: Case) -> Iterator[None]:
        """Forget the runs of other cases."""
        self._run = ""
        yield

    def place(self) -> str:
        """Return which run is going on, and how far it has come; empty if none is."""
        done = () if self._records is None else read_progress(self._records)
        iterations = min((progress.iterations for progress in done), default=0)
        return self._run and f"{self._run} was at iteration {iterations}"

    def run_starts(self, case: Case, number: int, of: int, version: str = "") -> None:
        """Remember which run this is."""
        self._run, self._records = f"run {number} of {case.id}", None

    def tick(self, case: Case, workdir: Path) -> None:
        """Remember where its records are."""
        self._records = workdir

    def traces(self, case: Case, number: int, of: int, words: str) -> None:
        """Do nothing."""

    def profiles(self, case: Case, number: int, of: int, words: str) -> None:
        """Do nothing."""

    def run_ended(self, case: Case, run: RunSummary) -> None:
        """Forget it."""
        self._run = ""

    @contextlib.contextmanager
    def _uncaptured(self) -> Iterator[None]:
        if self._capture is None:
            yield
            return
        with self._capture.global_and_fixture_disabled():
            yield

    def queued(self, name: str, words: str) -> None:
        """Do nothing."""

    def _line(self, text: str) -> None:
        with self._uncaptured():
            if self._reporter is None:
                # Begins a line: the process that has the terminal may be in the midst of one.
                sys.stderr.write(f"\n{shown(text)}\n")
                sys.stderr.flush()
                return
            write_line(self._reporter, text)
            self._reporter.flush()


class Live(Quiet):
    """Shows on pytest's terminal how a case goes on."""

    def __init__(self, config: pytest.Config) -> None:
        super().__init__(config)
        self._moving = bool(self._reporter.isatty)
        self._number, self._of = 0, 0
        #: The version that the run measures, where two are compared.
        self._version = ""
        self._run_s: float | None = None
        #: How far each launch had come, and when that was seen: a pair has two at once.
        self._places: dict[Path, tuple[int, float]] = {}
        #: Work of an iteration by a case's last run: its program may say another than the case.
        self._work: dict[str, float] = {}
        #: The last rate and time left, as they are shown until there are others.
        self._rate = ""
        self._queued = ""
        self._forecast: Forecast | None = None
        self._case_number, self._cases = 0, 0
        #: The case whose test runs, also while its one-device parent does.
        self._case_id = ""
        #: Whether the terminal's line is ours: what pytest has written on it stays.
        self._has_line = False
        #: When a launch was told of last, where no line moves, and when it began.
        self._told_s = self._began_s = 0.0

    def expect(self, forecast: Forecast) -> None:
        """Take what the session is to measure."""
        self._forecast, self._cases = forecast, forecast.count

    def confirms(self, case: Case, against: str) -> None:
        """Say it: the runs that follow are others."""
        self._run_s = None
        self._leave_line()
        place, _ = self._title()
        self._line(f"{place}{case.id}: stored sessions leave it open; pairs with {against} decide")
        if self._forecast is not None:
            self._forecast.confirms(case.id)

    @contextlib.contextmanager
    def watched(self, case: Case) -> Iterator[None]:
        """Count ``case`` while its test runs it."""
        self._run = ""
        self._case_number += 1
        self._case_id = case.id
        self._run_s = None
        try:
            yield
        finally:
            self._leave_line()
            if self._forecast is not None:
                self._forecast.ended(case.id)

    def run_starts(self, case: Case, number: int, of: int, version: str = "") -> None:
        """Remember which run this is."""
        super().run_starts(case, number, of)
        self._number, self._of, self._version = number, max(number, of), version
        self._told_s = self._began_s = time.monotonic()
        self._places.clear()
        self._rate = ""
        if self._moving:
            self._move(case, STARTING)

    def tick(self, case: Case, workdir: Path) -> None:
        """Show iteration, rate and time left."""
        super().tick(case, workdir)
        if not self._moving and time.monotonic() - self._told_s < _RUN_TOLD_EVERY_S:
            return
        iterations = min((p.iterations for p in read_progress(workdir)), default=-1)
        if iterations < 0:
            self._run_goes_on(case, STARTING)
            return
        before, at_s = self._places.get(workdir, (0, 0.0))
        now_s = time.monotonic()
        # The one before may have been followed by seconds of warm-up
        is_paused = case.protocol.warmup_s and before < case.protocol.warmup <= iterations
        if iterations > before and at_s and not is_paused:
            step_s = (now_s - at_s) / (iterations - before)
            # Which work the ranks say is known once a run ended
            work, unit = self._work.get(case.id), known_unit(case)
            if work is None:
                work, unit = 1.0, "iterations"
            self._rate = (
                f" {figures.rate(work / step_s)} {unit}/s"
                f"{self._time_left(case, iterations, step_s)}"
            )
        if iterations != before:
            self._places[workdir] = (iterations, now_s)
        self._run_goes_on(case, f"{iterations}/{case.protocol.iterations}{self._rate}")

    def _run_goes_on(self, case: Case, words: str) -> None:
        """Show how far a run has come."""
        if self._moving:
            self._move(case, words)
            return
        self._told_s = time.monotonic()
        place, run_number = self._title()
        so_far = figures.duration(self._told_s - self._began_s)
        self._line(f"{place}{case.id} {run_number}: {so_far} so far, {words}")

    def traces(self, case: Case, number: int, of: int, words: str) -> None:
        """Show it, where the line moves; else say it once in a while."""
        self._launch_goes_on(case, "trace", (number, of), words)

    def profiles(self, case: Case, number: int, of: int, words: str) -> None:
        """Show it, where the line moves; else say that it begins, and then once in a while."""
        if words == STARTING:
            self._began_s = time.monotonic()
            if not self._moving:
                self._line(f"dlperf: {case.id}: profile {number} of {of}")
        else:
            took_s = time.monotonic() - self._began_s
            words = f"{figures.duration(took_s)} so far, {words}"
        self._launch_goes_on(case, "profile", (number, of), words)

    def _launch_goes_on(self, case: Case, noun: str, place: tuple[int, int], words: str) -> None:
        """Show how far a launch has come with a trace or a profile: its number, of how many."""
        self._number, self._of = place
        if self._moving:
            self._move(case, words or STARTING, noun=noun)
            return
        now_s = time.monotonic()
        if words == STARTING:
            self._told_s = now_s
        elif words and now_s - self._told_s >= _TOLD_EVERY_S:
            self._told_s = now_s
            number = f" {self._number} of {self._of}" if self._of > 1 else ""
            self._line(f"dlperf: {case.id}: {noun}{number}: {words}")

    def run_ended(self, case: Case, run: RunSummary) -> None:
        """Say what a run measured."""
        super().run_ended(case, run)
        # Of a pair in lock-step each run has its half
        self._run_s = run.elapsed_s
        steps = run.step_seconds[slice(*case.protocol.window)]
        if steps and not run.steps_are_relative:
            self._work[case.id] = run.throughput * statistics.fmean(steps)
        is_news = self._forecast is not None and self._forecast.learn(case.id, self._run_s)
        self._tell_run(case, run)
        left = self._forecast.left() if is_news and self._forecast is not None else ""
        if left:
            self._leave_line()
            self._line(f"dlperf: {left}")

    def _tell_run(self, case: Case, run: RunSummary) -> None:
        if self._moving:
            self._move(case, f"{figures.rate(run.throughput)} {known_unit(case)}/s")
            return
        disturbed = f"; does not count: {run.disturbed_in_brief}" if run.disturbed else ""
        place, run_number = self._title()
        self._line(
            f"{place}{case.id} {run_number}: {figures.rate(run.throughput)} "
            f"{known_unit(case)}/s in {figures.duration(run.elapsed_s)}{disturbed}"
        )

    def queued(self, name: str, words: str) -> None:
        """Show the state of a job when it has changed."""
        text = f"{name}: {words}"
        if text != self._queued:
            self._queued = text
            (self._rewrite if self._moving else self._line)(text)

    def _title(self, noun: str = "run") -> tuple[str, str]:
        """Return the words before and after a case's id."""
        where = f"{self._case_number}/{self._cases}" if self._case_number else "in rounds"
        place = f"[{where}] " if self._cases > 1 else ""
        version = f" ({self._version})" if self._version and noun == "run" else ""
        return place, f"{noun} {self._number}/{self._of}{version}"

    def _move(self, case: Case, words: str, noun: str = "run") -> None:
        """Show ``words`` of the run; a long id gives way to them."""
        place, number = self._title(noun)
        room = self._width - len(place) - len(number) - columns(words) - 2
        self._rewrite(f"{place}{clipped(case.id, max(room, _ID))} {number} {words}")

    def _time_left(self, case: Case, iterations: int, step_s: float) -> str:
        left_s = (case.protocol.iterations - iterations) * step_s
        if self._run_s is not None:
            left_s += (self._of - self._number) * self._run_s
        others_s = None if self._forecast is None else self._forecast.left_s(self._case_id)
        session = (
            "" if not others_s else f", session {figures.duration(left_s + others_s)} at least"
        )
        return f", {figures.duration(left_s)} left{session}"

    @property
    def _width(self) -> int:
        """The columns of a line that does not wrap, as one that did could not be rewritten."""
        width: int = self._reporter.config.get_terminal_writer().fullwidth - 1
        return width

    def _leave_line(self) -> None:
        """End the line, so that pytest's next output starts a new one."""
        if self._has_line:
            with self._uncaptured():
                self._reporter.write("\n", flush=True)
            self._has_line = False

    def _rewrite(self, text: str) -> None:
        with self._uncaptured():
            if not self._has_line:
                self._reporter.ensure_newline()
                self._has_line = True
            self._reporter.rewrite(shortened(shown(text), self._width), erase=True)
            self._reporter.flush()
