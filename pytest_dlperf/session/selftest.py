"""``--dlperf-selftest``: store, measure again, make steps longer, report what the gate saw.

What stored sessions leave open is asked once more by pairs of the working tree with itself.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import NEVER
from pytest_dlperf.judge.screen import looks
from pytest_dlperf.report import json_
from pytest_dlperf.report.figures import span
from pytest_dlperf.report.selftest import Asked, SessionResult, Step, exit_code, lines, pages
from pytest_dlperf.session import selftest_process as options
from pytest_dlperf.session.exits import usage_error, write_line
from pytest_dlperf.session.selftest_process import Sessions
from pytest_dlperf.session.settings import Settings
from pytest_dlperf.store.history.session_runs import make_session_folder, make_work_folder

#: Options of pytest that only show something.
_SHOW: Final = (
    "help", "version", "markers", "cacheshow", "showfixtures", "show_fixtures_per_test",
    "collectonly", "setupplan",
)  # fmt: skip


def run(config: pytest.Config) -> int | None:
    """Run the self-test; return its exit code, None where there is none to run.

    Raises ``pytest.UsageError`` for options that contradict it.
    """
    text = config.option.dlperf_selftest
    if text == options.OFF or any(getattr(config.option, name, None) for name in _SHOW):
        return None
    try:
        share = options.parse(text)
        options.check(_get(config), [str(word) for word in config.invocation_params.args])
        settings = Settings.from_config(config)
    except UsageError as error:
        raise usage_error(error) from error
    sessions = Sessions(config.invocation_params.dir)
    with sessions.forwarding():
        folder, lock = _folder(settings.workdir)
        try:
            return _SelfTest(config, settings, sessions, folder=folder, share=share).run()
        finally:
            _remove(folder / "baselines")
            os.close(lock)


class _EndedEarly(Exception):
    """A session ended without results."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


#: The names of the sessions' files.
_FILES: Final = {
    Step.STORE: "store",
    Step.UNCHANGED: "unchanged",
    Step.UNCHANGED_BY_PAIRS: "unchanged-pairs",
    Step.SLOWER: "slower",
    Step.SLOWER_BY_PAIRS: "slower-pairs",
}


class _SelfTest:
    """The sessions, and what they found so far."""

    def __init__(
        self,
        config: pytest.Config,
        settings: Settings,
        sessions: Sessions,
        *,
        folder: Path,
        share: float,
    ) -> None:
        self._config = config
        self._settings = settings
        self._sessions = sessions
        self._folder = folder
        self._share = share
        self._results: dict[str, dict[Step, SessionResult]] = {}
        self._took_s = 0.0

    def run(self) -> int:
        """Run the sessions, print what they found, and return the exit code."""
        try:
            self._store()
            for step in [*Step][1:]:
                self._measure(step)
        except _EndedEarly as ended:
            _print_now(f"dlperf self-test: {ended}", f"results so far: {self._path(self._folder)}")
            return ended.code
        asked = [*self._asked().values()]
        _print_now(_rule("dlperf self-test"), *lines(asked, self._share))
        _print_now(*(f"page: {self._path(page)}" for page in pages(asked)))
        _print_now(f"results: {self._path(self._folder)}")
        return exit_code(asked, self._settings.fail_on.verdicts)

    def _asked(self) -> dict[str, Asked]:
        """Return each case with what is known of it, by its id."""
        is_excluded = self._settings.confirm == NEVER
        why = "--dlperf-confirm=never excludes pairs, which would decide; leave it out"
        return {
            case_id: Asked(results=results, no_pairs=why if is_excluded else "")
            for case_id, results in self._results.items()
        }

    def _store(self) -> None:
        began_s = time.monotonic()
        where = self._path(self._folder / "baselines")
        title = f"1/3: measures, and stores a temporary baseline in {where}; yours stays as it is"
        for outcome in self._session(_FILES[Step.STORE], title, options.store()):
            self._results[outcome.case.id] = {Step.STORE: self._result(Step.STORE, outcome)}
        if not self._results:
            raise _EndedEarly(1, "no case was measured, so there is nothing to ask")
        self._took_s = time.monotonic() - began_s

    def _measure(self, step: Step) -> None:
        """Run the session of ``step`` with the cases that need it, unless there was an error."""
        asked = self._asked()
        chosen = {case_id for case_id, case in asked.items() if case.next_step is step}
        if not chosen or any(case.has_error for case in asked.values()):
            return
        without = [
            f"--deselect={case.stored.node_id}"
            for case_id, case in asked.items()
            if case_id not in chosen
        ]
        words = [*self._words(step), *without]
        for outcome in self._session(_FILES[step], self._title(step, len(chosen)), words):
            if outcome.case.id in chosen:
                self._results[outcome.case.id][step] = self._result(step, outcome)

    def _words(self, step: Step) -> list[str]:
        """Return the options of the session of ``step``, which is judged."""
        is_slower = step in {Step.SLOWER, Step.SLOWER_BY_PAIRS}
        by_pairs = step in {Step.UNCHANGED_BY_PAIRS, Step.SLOWER_BY_PAIRS}
        return options.judged(share=self._share if is_slower else 0.0, by_pairs=by_pairs)

    def _title(self, step: Step, count: int) -> str:
        longer = f"{100 * self._share:.4g} % longer for real, which must be found"
        cases = f"{count} {'case is' if count == 1 else 'cases are'} open"
        return {
            Step.UNCHANGED: f"2/3: measures the same again, which must pass; {self._estimate()}",
            Step.UNCHANGED_BY_PAIRS: f"2/3, by pairs: {cases}; measures the same beside itself, "
            "which must pass",
            Step.SLOWER: f"3/3: makes each step {longer}",
            Step.SLOWER_BY_PAIRS: f"3/3, by pairs: {cases}; makes each step of one side {longer}",
        }[step]

    def _result(self, step: Step, outcome: Outcome) -> SessionResult:
        return SessionResult(outcome=outcome, page=self._folder / f"{_FILES[step]}.html")

    def _session(self, name: str, title: str, own_options: Sequence[str]) -> tuple[Outcome, ...]:
        """Run one session, and return its outcomes; raise ``_EndedEarly`` if it has none."""
        self._end_if_interrupted()
        _print_now("", f"dlperf self-test {title}")
        option = self._config.option
        words = [
            *options.common(self._folder, name, _get(self._config), option.markexpr),
            *own_options,
        ]
        if self._config.pluginmanager.has_plugin("cacheprovider"):
            # What fails here on purpose is not what --lf is to run
            words.append(f"--override-ini=cache_dir={self._folder / 'cache'}")
        if getattr(option, "xmlpath", None):
            words.append(f"--junitxml={self._folder / name}.xml")
        typed = [str(word) for word in self._config.invocation_params.args]
        code = self._sessions.run(options.with_ours(typed, words))
        self._end_if_interrupted(code)
        if code == pytest.ExitCode.NO_TESTS_COLLECTED:
            raise _EndedEarly(code, "no test with the marker dlperf was selected")
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            why = f"this session ended with exit code {code}; see its output above"
            raise _EndedEarly(code if code > 0 else pytest.ExitCode.INTERNAL_ERROR, why)
        path = self._folder / f"{name}.json"
        if not path.exists():
            raise _EndedEarly(pytest.ExitCode.TESTS_FAILED, "this session measured no case")
        return json_.read(path)

    def _end_if_interrupted(self, code: int = 0) -> None:
        if self._sessions.interrupted:
            raise _EndedEarly(pytest.ExitCode.INTERRUPTED, "interrupted; nothing is stored")
        if code == pytest.ExitCode.INTERRUPTED:
            why = "this session was interrupted, or could not collect; see its output above"
            raise _EndedEarly(code, why)

    def _estimate(self) -> str:
        """Return how long the two steps to come take, by how long the first one took."""
        done, least, longest = 0, 0.0, 0.0
        slower = 1 + self._share
        for asked in self._asked().values():
            outcome = asked.stored
            if (measured := outcome.measurement) is not None:
                done += len(measured.runs) + len(measured.disturbed_runs)
            if not asked.is_stored:
                continue
            counts = looks(outcome.case.protocol)
            # The slower steps are measured in pairs as well, where a commit has the code
            pairs = self._settings.second_stage != NEVER and outcome.commit and not outcome.dirty
            each = 1 + slower + (1 + slower if pairs else 0)
            least, longest = least + each * counts[0], longest + each * counts[-1]
        run_s = self._took_s / max(1, done)
        took = span(run_s * least, run_s * longest)
        return f"this and the next take {took}, and pairs are run of what they leave open"

    def _path(self, path: Path) -> str:
        """Return a path as it is typed here."""
        here = self._config.invocation_params.dir
        return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _get(config: pytest.Config) -> Callable[[str], Any]:
    return lambda name: config.getoption(f"dlperf_{name.replace('-', '_')}")


def _folder(workdir: Path) -> tuple[Path, int]:
    """Return a new folder below the session's work folder, which git ignores, and its lock."""
    try:
        make_work_folder(workdir)
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        return make_session_folder(workdir / "selftest", name)
    except OSError as error:
        raise usage_error(
            f"--dlperf-selftest cannot write to {workdir}: {error.strerror}; name "
            "another folder with --dlperf-workdir"
        ) from error


def _remove(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        pass  # nothing came to be stored
    except OSError as error:
        _print_now(f"dlperf self-test: {folder} could not be removed: {error.strerror}")


def _rule(title: str) -> str:
    width = shutil.get_terminal_size().columns
    return f" {title} ".center(width, "=")


def _print_now(*lines: str) -> None:
    for line in lines:
        write_line(None, line)
    sys.stdout.flush()
