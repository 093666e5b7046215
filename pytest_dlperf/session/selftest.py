"""``--dlperf-selftest``: store, measure again, make steps longer, report what the gate saw."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import pytest

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import NEVER, Verdict
from pytest_dlperf.judge.screen import looks
from pytest_dlperf.report import json_
from pytest_dlperf.report.figures import span
from pytest_dlperf.report.selftest import TRIES, Asked, Try, exit_code, lines, pages
from pytest_dlperf.session import selftest_process as options
from pytest_dlperf.session.exits import usage_error, write_line
from pytest_dlperf.session.selftest_process import Sessions, wait_for_idle_cpus
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


#: Seconds to wait at most, before a try, for what other programs do.
WAIT_S: Final = 60
#: Verdicts that another stored session may change: that of a changed machine, or of noise.
_BY_WHAT_IS_STORED: Final = frozenset({Verdict.INCOMPARABLE, Verdict.INCONCLUSIVE})


@dataclass(frozen=True, kw_only=True, slots=True)
class _Step:
    """One of the three steps: what its sessions are given, and when a case needs none."""

    #: The name of its files.
    name: str
    kind: Literal["store", "unchanged", "slower"]
    title: str
    is_answered: Callable[[Asked], bool]
    words: Sequence[str]


class _SelfTest:
    """The three steps, and what they found so far."""

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
        self._asked: dict[str, _Tries] = {}

    def run(self) -> int:
        """Run the steps, print what they found, and return the exit code."""
        try:
            self._steps()
        except _EndedEarly as ended:
            _print_now(f"dlperf self-test: {ended}", f"results so far: {self._path(self._folder)}")
            return ended.code
        found = [tries.asked() for tries in self._asked.values()]
        _print_now(_rule("dlperf self-test"), *lines(found, self._share))
        _print_now(*(f"page: {self._path(page)}" for page in pages(found)))
        _print_now(f"results: {self._path(self._folder)}")
        return exit_code(found, self._settings.fail_on.verdicts)

    def _steps(self) -> None:
        began_s = time.monotonic()
        where = self._path(self._folder / "baselines")
        self._ask(
            _Step(
                name="store",
                kind="store",
                title=f"1/3: measures, and stores a temporary baseline in {where}; yours stays as "
                "it is",
                is_answered=lambda asked: asked.is_stored,
                words=options.store(),
            )
        )
        if not self._asked:
            raise _EndedEarly(1, "no case was measured, so there is nothing to ask")
        estimate = self._estimate(time.monotonic() - began_s)
        unchanged = _Step(
            name="unchanged",
            kind="unchanged",
            title=f"2/3: measures the same again, which must pass; {estimate}",
            is_answered=lambda asked: not asked.is_stored or asked.passed_unchanged,
            words=options.judged(),
        )
        for number in range(1, TRIES + 1):
            if number > 1:
                self._store_again(unchanged, number)
            self._try(unchanged, number)
        longer = f"{100 * self._share:.4g} %"
        self._ask(
            _Step(
                name="slower",
                kind="slower",
                title=f"3/3: makes each step {longer} longer for real, which must be found",
                is_answered=lambda asked: (
                    not asked.is_stored or asked.is_settled or asked.cries_wolf
                ),
                words=options.judged(share=self._share),
            )
        )

    def _ask(self, step: _Step) -> None:
        """Run sessions until every case is answered, at most three, and none after an error."""
        for number in range(1, TRIES + 1):
            self._try(step, number)

    def _try(self, step: _Step, number: int) -> None:
        """Run one session of the cases that are not answered, if there are any."""
        still = self._open(step.is_answered)
        if self._asked and (not still or self._has_error):
            return
        name, title = step.name, step.title
        if number > 1:
            name = f"{step.name}-{number}"
            title = f"{step.title[:3]}, try {number} of {TRIES}: {_cases(len(still))} open"
            self._wait_for_idle_cpus(still)
        if step.kind == "store":
            self._forget(still)
        without = [
            f"--deselect={tries.node_id}"
            for case_id, tries in self._asked.items()
            if case_id not in still
        ]
        for outcome in self._session(name, title, [*step.words, *without]):
            tries = self._asked.setdefault(outcome.case.id, _Tries(outcome.node_id))
            tries.add(step.kind, Try(outcome=outcome, page=self._folder / f"{name}.html"))

    def _wait_for_idle_cpus(self, case_ids: Collection[str]) -> None:
        """Wait, where other programs disturbed a case, until they are done or a minute is over."""
        last = [tries.last for i, tries in self._asked.items() if i in case_ids]
        measured = [o.measurement for o in last if o is not None and o.measurement is not None]
        if not any(run.disturbed for found in measured for run in found.runs):
            return
        _print_now(
            "", f"dlperf self-test: waits up to {WAIT_S} s for other programs to end their work"
        )
        waited_s = wait_for_idle_cpus(WAIT_S, is_over=lambda: self._sessions.interrupted)
        if waited_s >= WAIT_S:
            _print_now("dlperf self-test: they still use the CPUs; it goes on all the same")

    def _store_again(self, step: _Step, number: int) -> None:
        """Store again what noise, or a machine that changed, left open in the try before.

        So that what is stored is no older than what is compared with it. After a false alarm it
        stays: the gate that is asked has raised it.
        """
        if self._has_error:
            return
        forgotten = set()
        for case_id in self._open(step.is_answered):
            tries = self._asked[case_id]
            if tries.unchanged and tries.unchanged[-1].verdict in _BY_WHAT_IS_STORED:
                tries.is_forgotten = True
                forgotten.add(case_id)
        if not forgotten:
            return
        self._ask(
            _Step(
                name=f"store-for-{number}",
                kind="store",
                title=f"1/3: stores again for try {number} of step 2, as the machine changed or "
                "its runs differ",
                is_answered=lambda asked: asked.is_stored or asked.stored.case.id not in forgotten,
                words=options.store(),
            )
        )

    def _forget(self, case_ids: Collection[str]) -> None:
        """Remove what a disturbed session stored: it would make everything after it look fast."""
        for path in (self._folder / "baselines").glob("*/*/*.json"):
            if path.stem in case_ids:
                path.unlink()

    def _open(self, is_answered: Callable[[Asked], bool]) -> set[str]:
        """Return the ids of the cases that are asked and not answered."""
        asked = {case_id: tries.asked() for case_id, tries in self._asked.items()}
        return {i for i, one in asked.items() if one.is_asked and not is_answered(one)}

    @property
    def _has_error(self) -> bool:
        return any(
            one.verdict is Verdict.ERROR
            for tries in self._asked.values()
            for one in (*tries.store, *tries.unchanged, *tries.slower)
        )

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

    def _estimate(self, took_s: float) -> str:
        """Return how long the two steps to come take, where the first one took so long."""
        done, least, longest = 0, 0.0, 0.0
        slower = 1 + self._share
        for tries in self._asked.values():
            for attempt in tries.store:
                if (measured := attempt.outcome.measurement) is not None:
                    done += len(measured.runs) + len(measured.disturbed_runs)
            if not tries.asked().is_stored:
                continue
            outcome = tries.store[-1].outcome
            counts = looks(outcome.case.protocol)
            # The slower steps are measured in pairs as well, where a commit has the code
            pairs = self._settings.second_stage != NEVER and outcome.commit and not outcome.dirty
            each = 1 + slower + (1 + slower if pairs else 0)
            least, longest = least + each * counts[0], longest + each * counts[-1]
        run_s = took_s / max(1, done)
        took = span(run_s * least, run_s * longest)
        return f"this and the next take {took}, if one try each is enough"

    def _path(self, path: Path) -> str:
        """Return a path as it is typed here."""
        here = self._config.invocation_params.dir
        return str(path.relative_to(here) if path.is_relative_to(here) else path)


class _Tries:
    """What is known of one case so far."""

    def __init__(self, node_id: str) -> None:
        self.node_id = node_id
        self.store: list[Try] = []
        self.unchanged: list[Try] = []
        self.slower: list[Try] = []
        #: Whether what is stored is to be stored again.
        self.is_forgotten = False

    def add(self, kind: Literal["store", "unchanged", "slower"], one: Try) -> None:
        """Add what a session found; the first try to store again replaces what was stored."""
        if kind == "store" and self.is_forgotten:
            self.store, self.is_forgotten = [], False
        {"store": self.store, "unchanged": self.unchanged, "slower": self.slower}[kind].append(one)

    @property
    def last(self) -> Outcome | None:
        """The newest outcome of the last step that was tried; None before the first."""
        tried = self.slower or self.unchanged or self.store
        return tried[-1].outcome if tried else None

    def asked(self) -> Asked:
        return Asked(
            store=tuple(self.store),
            unchanged=tuple(self.unchanged),
            slower=tuple(self.slower),
            is_forgotten=self.is_forgotten,
        )


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


def _cases(count: int) -> str:
    return f"{count} {'case is' if count == 1 else 'cases are'}"


def _rule(title: str) -> str:
    width = shutil.get_terminal_size().columns
    return f" {title} ".center(width, "=")


def _print_now(*lines: str) -> None:
    for line in lines:
        write_line(None, line)
    sys.stdout.flush()
