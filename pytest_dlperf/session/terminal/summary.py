"""What pytest prints and writes about outcomes: test reports, JUnit, summary, report files."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pytest_dlperf.core.errors import DlperfError
from pytest_dlperf.core.outcome import Outcome, outcome_from_json
from pytest_dlperf.core.place import IN_JOB
from pytest_dlperf.core.secret_texts import masked_values, secrets_of
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.core.writable import unforeseen
from pytest_dlperf.flow.later import with_later_sessions
from pytest_dlperf.report import json_, terminal
from pytest_dlperf.report.printable import shown
from pytest_dlperf.session.exits import write_line
from pytest_dlperf.session.fixture import Dlperf
from pytest_dlperf.session.jobs import own_options
from pytest_dlperf.session.options import flags
from pytest_dlperf.session.sinks.deliver import deliver
from pytest_dlperf.session.terminal import github_actions
from pytest_dlperf.session.terminal.not_reached import (
    Planned,
    Reached,
    kept_planned,
    measured_now,
    outcome_of,
)
from pytest_dlperf.session.terminal.test_report import (
    ATTRIBUTE,
    CASE,
    properties,
    put_outcome,
    without_ours,
)
from pytest_dlperf.session.to_history import SessionHistory

if TYPE_CHECKING:
    from pytest_dlperf.session.perf_session import PerfSession


#: What the summary calls each report, and the module whose ``render(outcomes)`` is its text, and
#: whose ``remark(outcomes)``, if it has one, says what is not in it; imported where it was asked
#: for.
_RENDERERS: Final = {
    "json": ("results", "pytest_dlperf.report.json_"),
    "html": ("page", "pytest_dlperf.report.page.session_page"),
    "md": ("comment", "pytest_dlperf.report.pull_request"),
    "benchmark-json": ("pytest-benchmark", "pytest_dlperf.report.benchmark_json"),
    "metrics": ("metrics", "pytest_dlperf.report.open_metrics"),
}


#: The share of a session's time that results may take which are written before its end.
_WRITING_SHARE: Final = 0.1


class SessionReports:
    """Writes the report files of a session, and lists them in its summary."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        #: Seconds that writing the results so far has taken.
        self._writing_s = 0.0
        self._has_begun = False
        #: A line for each report that was asked for: its path, or why it was not written.
        self.lines: list[str] = []

    def write_so_far(
        self, path: Path, outcomes: Sequence[Outcome], *, is_begun: bool = False
    ) -> None:
        """Write the results so far: the session may be killed before its end.

        Not so often that it would take more than a tenth of the session's time; but once they say
        of a case that it has begun (``is_begun``), what becomes of it is written too.
        """
        began_s = time.monotonic()
        is_too_often = self._writing_s > _WRITING_SHARE * (began_s - self._began_s)
        if is_too_often and (is_begun or not self._has_begun):
            return
        self._has_begun = is_begun
        # Whatever keeps it from being written, the session's end meets it too, and says so.
        with contextlib.suppress(Exception):
            json_.write(path, outcomes)
        self._writing_s += time.monotonic() - began_s

    def write(
        self,
        reports: Mapping[str, Path],
        outcomes: Sequence[Outcome],
        others: Mapping[str, Sequence[Outcome]],
    ) -> bool:
        """Write ``reports``, paths by kind; return whether all of them could be.

        ``others`` are outcomes that a report has as well, by its kind.
        """
        whole = True
        for name, path in reports.items():
            title, module = _RENDERERS[name]
            renderer = importlib.import_module(module)
            shown_here = [*outcomes, *others.get(name, ())]
            try:
                text = renderer.render(shown_here)
                remark = renderer.remark(shown_here) if hasattr(renderer, "remark") else ""
                json_.write_text(path, text)
                self.lines.append(f"{title}: {path}" + (f" ({remark})" if remark else ""))
            except OSError as error:
                self.lines.append(f"{title} NOT written: {path}: {error.strerror}")
                whole = False
            except Exception as error:  # noqa: BLE001  # any: the other reports are written
                self.lines.append(f"{title} NOT written: {path}: {unforeseen(error)}")
                whole = False
        return whole


class Collector:
    """Gathers outcomes in the process that prints the summary."""

    def __init__(self, config: pytest.Config, session: PerfSession) -> None:
        self._config = config
        self._history = SessionHistory(session.settings)
        self._resumed = session.resumed
        #: By the id of the case: a later attempt of its test replaces an earlier one.
        self._outcomes: dict[str, Outcome] = {}
        self._reached = Reached()
        #: Node ids of tests whose attempt ends now, and is followed by another.
        self._rerun: set[str] = set()
        #: What was said of tests whose process was gone, by node id.
        self._crashed: dict[str, str] = {}
        self._reports = SessionReports()
        self._not_foreseen = ""
        self._exit_code = 0
        self._no_step_summary = ""
        options = config.option
        self._writes_what_begins = (
            options.dlperf_json is not None and options.dlperf_scheduler != IN_JOB
        )
        #: Of the tests in their files, from 1, by node id.
        self._lines: dict[str, int] = {}

    def receives(self, report: pytest.TestReport) -> None:
        """Take the verdict out of what JUnit has of an attempt that is followed by another."""
        outcome: str = report.outcome
        if outcome == "rerun":  # pytest-rerunfailures says so
            self._rerun.add(report.nodeid)
        if report.nodeid in self._rerun:
            report.user_properties = without_ours(report.user_properties)
        if report.when == "teardown":
            self._rerun.discard(report.nodeid)

    def take(self, report: pytest.TestReport) -> None:
        """Take what a report of a perf test says."""
        self._reached.take(report)
        values = getattr(report, ATTRIBUTE, None)
        if values is None:
            return
        # In the order of a results file: a report made of that is the session's own
        outcome = outcome_from_json(json.loads(json.dumps(values, sort_keys=True)))
        self._lines[outcome.node_id] = (report.location[1] or 0) + 1
        self._take(replace(outcome, command=self._reproduce(outcome)))

    def _take(self, outcome: Outcome) -> None:
        """Take the outcome of a case; of several attempts of its test, the last one counts."""
        if self._outcomes.get(outcome.case.id) == outcome:
            return
        self._outcomes[outcome.case.id] = outcome
        self._config.hook.pytest_dlperf_outcome(outcome=outcome)
        self._history.take(outcome)
        self._write_so_far()

    def _write_so_far(self, begun: Outcome | None = None) -> None:
        """Write the results so far; ``begun`` is what they say of the case that is measured."""
        path = self._config.option.dlperf_json
        if path is None:
            return
        shown_here = {outcome.case.id: outcome for outcome in self.outcomes}
        if self._resumed is not None:
            # It may be the very file that this session goes on from
            others = {one.case.id: one for one in self._resumed.others(self.outcomes)}
            shown_here |= others
            begun = None if begun is None or begun.case.id in others else begun
        if begun is not None:
            shown_here[begun.case.id] = begun
        self._reports.write_so_far(
            self._config.invocation_params.dir / path,
            list(shown_here.values()),
            is_begun=begun is not None,
        )

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcomes so far, one of each case."""
        return list(self._outcomes.values())

    def begins(self, node_id: str, session: PerfSession) -> None:
        """Say in the results that the case of a test is being measured.

        What ends pytest at once, as ``os._exit`` or SIGKILL do, leaves no other word of it. In a
        job they say nothing before the end: who waits for the job takes them as soon as they are
        there.
        """
        planned = self._planned(session).get(node_id)
        if planned is not None and self._writes_what_begins:
            self._write_so_far(measured_now(planned, session))

    def crashed(self, report: pytest.TestReport, session: PerfSession) -> None:
        """Take a test whose process was gone, of pytest-xdist's workers or another plugin's."""
        if report.nodeid in self._planned(session):
            self._crashed[report.nodeid] = str(report.longrepr).strip().partition("\n")[0]

    def _planned(self, session: PerfSession) -> Mapping[str, Planned]:
        self._reached.plan(session.planned)
        if session.folder_of_workers and not self._reached.planned:
            self._reached.plan(kept_planned(session.bench.folder))
        return self._reached.planned

    def report_missing(
        self, session: PerfSession, why: str, begun: Mapping[str, Dlperf | None]
    ) -> None:
        """Report the cases that the session did not reach, as the clause ``why`` says.

        ``begun`` are the fixtures of tests that began, by node id: one may have its outcome
        already, and no report of it.
        """
        self._planned(session)
        for planned in self._reached.missing(self.outcomes):
            fixture = begun.get(planned.node_id)
            known = None if fixture is None else fixture.outcome
            known = known or session.taken(planned.case, planned.node_id, stores=False)
            outcome = known or outcome_of(planned, session, why)
            for report in self._reached.reports(planned):
                setattr(report, CASE, planned.case.id)
                if report.when == "call":
                    put_outcome(report, outcome)
                else:
                    report.user_properties += properties(outcome)
                self._config.hook.pytest_runtest_logreport(report=report)

    def _reproduce(self, outcome: Outcome) -> str:
        """Return the command, typed where this one was, that runs just this case again."""
        config = self._config
        if config.option.dlperf_selftest is not None:
            return ""  # the baseline that it was judged against goes with the self-test
        path, _, name = outcome.node_id.partition("::")
        here = config.invocation_params.dir
        node_id = f"{os.path.relpath(config.rootpath / path, here)}::{name}"
        return shlex.join(
            [
                "pytest",
                node_id,
                *masked_values(
                    own_options(config.invocation_params.args, flags(), for_people=True),
                    secrets_of(os.environ),
                ),
            ]
        )

    @property
    def measured_nothing(self) -> bool:
        """Whether cases were to run, or logs to be judged, and nothing was measured."""
        measured = any(o.measurement is not None or o.share_done for o in self.outcomes)
        asked = bool(self.outcomes) or bool(self._config.option.dlperf_from_logs)
        return asked and not measured

    def finish(self, session: PerfSession, pytest_session: pytest.Session) -> None:
        """Write the session's reports; fail the session if nothing at all was measured."""
        for node_id, why in self._crashed.items():
            planned = self._reached.planned[node_id]
            if planned.case.id not in self._outcomes:
                words = f"the process of its test was gone ({why})"
                outcome = outcome_of(planned, session, words, verdict=Verdict.ERROR)
                self._take(replace(outcome, command=self._reproduce(outcome)))
        wanted, others = session.settings.reports, {}
        self._foresee(session)  # before the reports, which say it
        if self._resumed is not None:
            # What the file has of cases that were not selected, or not reached, stays in it
            resumed = self._resumed.path.resolve()
            same = [name for name, path in wanted.items() if path.resolve() == resumed]
            others = {name: self._resumed.others(self.outcomes) for name in same}
        if not self._reports.write(wanted, self.outcomes, others):
            pytest_session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
        if github_actions.is_on(self._config) and self.outcomes:
            self._no_step_summary = github_actions.write_summary(self.outcomes)
        self._add_to_history(pytest_session)
        fine = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        # Where a test failed, pytest's own code says so, but not after pytest.exit(returncode=0)
        has_failed = any(outcome.failed for outcome in self.outcomes)
        failed = self.measured_nothing or self._not_foreseen or has_failed
        if failed and pytest_session.exitstatus in fine:
            pytest_session.exitstatus = pytest.ExitCode.TESTS_FAILED
        self._exit_code = int(pytest_session.exitstatus)
        # Last: whatever a sink does, the exit code is what it was
        if session.settings.sinks and self.outcomes:
            self._reports.lines += deliver(session.settings.sinks, json_.render(self.outcomes))

    def _add_to_history(self, pytest_session: pytest.Session) -> None:
        try:
            added = self._history.finish()
        except Exception as error:  # noqa: BLE001  # any: sinks, and the summary, come next
            pytest_session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
            self._reports.lines.append(f"history NOT written: {unforeseen(error)}")
            return
        if added is None:
            return
        strict = added.waits and self._config.option.dlperf_strict
        if added.lost:
            pytest_session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
        elif strict and pytest_session.exitstatus == pytest.ExitCode.OK:
            pytest_session.exitstatus = pytest.ExitCode.TESTS_FAILED
        self._reports.lines.append(added.line + (": exit code 1" if strict else ""))

    def _foresee(self, session: PerfSession) -> None:
        """Add what later sessions can detect by what was stored, as every process has judged."""
        if not any(outcome.update for outcome in self.outcomes):
            return
        try:
            with_later = with_later_sessions(
                session.store,
                self.outcomes,
                session.settings.rule,
                count_family=not session.settings.family_given,
            )
            self._outcomes = {outcome.case.id: outcome for outcome in with_later}
        except Exception as error:  # noqa: BLE001  # any: the reports come next, without it
            why = error if isinstance(error, DlperfError) else unforeseen(error)
            self._not_foreseen = f"what later sessions can detect is NOT known: {why}"

    def write_summary(self, reporter: pytest.TerminalReporter, session: PerfSession) -> None:
        """Print the table, the sentences, and what was not judged."""
        if not self.outcomes and not self.measured_nothing:
            return
        verbosity = self._config.get_verbosity()
        if verbosity >= 0:
            reporter.write_sep("=", "dlperf")
        lines = terminal.render(
            self.outcomes,
            width=self._config.get_terminal_writer().fullwidth,
            verbosity=verbosity,
            printed=self._told(reporter),
        )
        begin = "" if verbosity >= 0 else "dlperf: "
        for line in lines:
            write_line(reporter, f"{begin}{line.text}", line.tail, line.colour)
            begin = ""
        for text in self._remarks(session, verbosity):
            write_line(reporter, text)
        if github_actions.is_on(self._config):
            for command in github_actions.commands(self._config, self.outcomes, self._lines):
                reporter.write_line(command)

    def _told(self, reporter: pytest.TerminalReporter) -> frozenset[str]:
        """Return the cases whose sentence pytest has printed, as that of a failed test."""
        if self._config.option.tbstyle in {"no", "line"}:
            return frozenset()
        printed = {
            getattr(report, CASE, ""): report.longreprtext
            for report in reporter.stats.get("failed", ())
        }
        return frozenset(
            outcome.case.id
            for outcome in self.outcomes
            if shown(outcome.judgement.reason) in printed.get(outcome.case.id, "")
        )

    def _remarks(self, session: PerfSession, verbosity: int) -> list[str]:
        """Return the lines of the summary that are not about single outcomes."""
        remarks: list[str] = []
        if self.measured_nothing:
            remarks.append(
                f"nothing was measured of {len(self.outcomes)} selected cases: exit code "
                f"{self._exit_code}"
                if self.outcomes
                else f"no case has a log under {session.settings.from_logs}: exit code 1"
            )
        problems = {o.checkout_problem for o in self.outcomes if o.checkout_problem}
        for problem in sorted(problems) if verbosity >= 0 else ():
            words = "git does not say the commit of these cases, or whether files are modified"
            remarks.append(f"{words}, so that storing them needs --dlperf-reason: {problem}")
        if self._resumed is not None and verbosity >= 0:
            taken = sum(bool(outcome.taken_from) for outcome in self.outcomes)
            remarks.append(
                f"{taken} of {len(self.outcomes)} cases were taken from {self._resumed.path}, and "
                "not measured in this session"
            )
        if self._not_foreseen:
            remarks.append(f"{self._not_foreseen}: exit code 1")
        if verbosity >= 0:
            remarks += terminal.later_sessions(self.outcomes, verbosity=verbosity)
        if session.settings.observe and verbosity >= 0:
            remarks.append(self._observed(session))
        remarks += [line for line in self._reports.lines if verbosity >= 0 or " NOT " in line]
        return remarks + ([self._no_step_summary] if self._no_step_summary else [])

    def _observed(self, session: PerfSession) -> str:
        """Return what gate mode would have done."""
        fails = sum(session.settings.gate_fails(one.judgement) for one in self.outcomes)
        count = len(self.outcomes)
        return (
            "mode observe: only errors fail; gate mode would have failed "
            f"{fails} of {count} {'test' if count == 1 else 'tests'}"
        )
