"""The part of a session that reports: it takes outcomes off test reports, and writes its end.

It is in the process that has the terminal, which under pytest-xdist runs no test.
"""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import replace

import pytest

from pytest_dlperf.core.errors import DlperfError
from pytest_dlperf.core.outcome import Outcome, outcome_from_json
from pytest_dlperf.core.place import IN_JOB
from pytest_dlperf.core.secret_texts import masked_values, secrets_of
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.core.writable import unforeseen
from pytest_dlperf.flow.later import with_later_sessions
from pytest_dlperf.report import json_
from pytest_dlperf.session.case_record import CaseRecord, Planned, kept_planned
from pytest_dlperf.session.jobs import own_options
from pytest_dlperf.session.no_verdict import outcome_so_far, outcome_without_verdict
from pytest_dlperf.session.options import flags
from pytest_dlperf.session.report_files import ReportFiles
from pytest_dlperf.session.session import Session
from pytest_dlperf.session.sinks.deliver import deliver
from pytest_dlperf.session.terminal import github_actions
from pytest_dlperf.session.terminal.summary import SessionEnd, write_summary
from pytest_dlperf.session.terminal.test_report import (
    ATTRIBUTE,
    CASE,
    properties,
    put_outcome,
    without_ours,
)
from pytest_dlperf.session.to_history import SessionHistory


class Reporter:
    """Gathers the outcomes of a session as they come, and reports them at its end."""

    def __init__(self, config: pytest.Config, session: Session) -> None:
        self._config, self._session = config, session
        self._records = session.records
        self._history = SessionHistory(session.settings)
        self._files = ReportFiles()
        #: Node ids of tests whose attempt ends now, and is followed by another.
        self._rerun: set[str] = set()
        #: None until the session ends.
        self._end: SessionEnd | None = None

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
        self._records.take_announced(report)
        record = self._records[getattr(report, CASE)]
        record.worker = getattr(report, "node", None)
        record.has_ended |= report.when == "teardown"
        values = getattr(report, ATTRIBUTE, None)
        if values is not None:
            # In the order of a results file: a report made of that is the session's own
            self._take(outcome_from_json(json.loads(json.dumps(values, sort_keys=True))))

    def _take(self, outcome: Outcome) -> None:
        """Take the outcome of a case; of several attempts of its test, the last one counts."""
        outcome = replace(outcome, command=self._reproduce(outcome))
        if not self._records.report(outcome):
            return
        self._config.hook.pytest_dlperf_outcome(outcome=outcome)
        self._history.take(outcome)
        self._write_so_far()

    def _write_so_far(self, begun: Outcome | None = None) -> None:
        """Write the results so far; ``begun`` is what they say of the case that is measured."""
        path = self._config.option.dlperf_json
        if path is None:
            return
        # The path may be the very file that this session goes on from
        before = {outcome.case.id: outcome for outcome in self._records.only_before}
        outcomes = {outcome.case.id: outcome for outcome in self._records.outcomes} | before
        if begun is not None and begun.case.id in before:
            begun = None
        if begun is not None:
            outcomes[begun.case.id] = begun
        self._files.write_so_far(
            self._config.invocation_params.dir / path,
            list(outcomes.values()),
            is_begun=begun is not None,
        )

    def begins(self, node_id: str) -> None:
        """Say in the results that the case of a test is being measured.

        What ends pytest at once, as ``os._exit`` or SIGKILL do, leaves no other word of it. In a
        job they say nothing before the end: who waits for the job takes them as soon as they are
        there.
        """
        options = self._config.option
        if options.dlperf_json is None or options.dlperf_scheduler == IN_JOB:
            return
        planned = self._planned(node_id)
        if planned is not None:
            self._write_so_far(outcome_so_far(planned, self._session.resources))

    def crashed(self, report: pytest.TestReport) -> None:
        """Take a test whose process was gone, of pytest-xdist's workers or another plugin's."""
        planned = self._planned(report.nodeid)
        if planned is not None:
            why = str(report.longrepr).strip().partition("\n")[0]
            self._records[planned.case.id].crashed = why

    def _planned(self, node_id: str) -> Planned | None:
        """Return the test of a case; None for any other test."""
        self._learn_planned()
        record = self._records.record_of_test(node_id)
        return None if record is None else record.planned

    def _learn_planned(self) -> None:
        """Read what the workers of pytest-xdist are to run, if no report has said it yet."""
        resources = self._session.resources
        if resources.folder_of_workers and not self._records.planned:
            self._records.plan(kept_planned(resources.folder))

    def report_unreached(self, why: str) -> None:
        """Report the cases that the session did not reach, as the clause ``why`` says."""
        self._learn_planned()
        session, resumed = self._session, self._session.resumed
        for planned in self._records.unreached:
            record = self._records[planned.case.id]
            # Its test may have the outcome already, and no report of it
            outcome = record.attempt
            if outcome is None and resumed is not None:
                outcome = resumed.outcome_now(planned.case, planned.node_id, session.resources)
            if outcome is None:
                outcome = outcome_without_verdict(planned, session, why)
            self._report_unreached(planned, record, outcome)

    def _report_unreached(self, planned: Planned, record: CaseRecord, outcome: Outcome) -> None:
        node = {} if record.worker is None else {"node": record.worker}
        for when in ("call", "teardown"):
            report = pytest.TestReport(
                nodeid=planned.node_id,
                location=planned.location,
                keywords={},
                outcome="passed",
                longrepr=None,
                when=when,
                **node,
            )
            setattr(report, CASE, planned.case.id)
            if when == "call":
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

    def finish(self, pytest_session: pytest.Session) -> None:
        """Write the session's reports; fail the session if nothing at all was measured."""
        settings, lines = self._session.settings, self._files.lines
        self._take_crashed()
        outcomes = self._records.outcomes
        measured = any(_has_measured(outcome) for outcome in outcomes)
        measured_nothing = bool(outcomes or settings.from_logs) and not measured
        foreseen, not_foreseen = self._foresee(outcomes)  # before the reports, which say it
        if not self._files.write(settings.reports, foreseen, self._additions()):
            pytest_session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
        no_step_summary = ""
        if github_actions.is_on(self._config) and outcomes:
            no_step_summary = github_actions.write_summary(foreseen)
        self._add_to_history(pytest_session, outcomes)
        fine = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        # Where a test failed, pytest's own code says so, but not after pytest.exit(returncode=0)
        has_failed = any(outcome.failed for outcome in outcomes)
        failed = measured_nothing or not_foreseen or has_failed
        if failed and pytest_session.exitstatus in fine:
            pytest_session.exitstatus = pytest.ExitCode.TESTS_FAILED
        exit_code = int(pytest_session.exitstatus)
        # Last: whatever a sink does, the exit code is what it was
        if settings.sinks and outcomes:
            lines += deliver(settings.sinks, json_.render(foreseen))
        tests = self._records.planned
        self._end = SessionEnd(
            outcomes=foreseen,
            measured_nothing=measured_nothing,
            exit_code=exit_code,
            not_foreseen=not_foreseen,
            report_lines=lines,
            no_step_summary=no_step_summary,
            line_numbers={test.node_id: (test.location[1] or 0) + 1 for test in tests},
        )

    def _take_crashed(self) -> None:
        """Give an outcome to each case whose process was gone before it had one."""
        for planned in self._records.planned:
            record = self._records[planned.case.id]
            if record.crashed and record.outcome is None:
                words = f"the process of its test was gone ({record.crashed})"
                self._take(
                    outcome_without_verdict(planned, self._session, words, verdict=Verdict.ERROR)
                )

    def _additions(self) -> dict[str, list[Outcome]]:
        """Return what a report holds beside this session's outcomes, by its kind.

        Where it is the file that this session went on from, what that has of cases that were not
        selected, or not reached, stays in it.
        """
        resumed, reports = self._session.resumed, self._session.settings.reports
        if resumed is None:
            return {}
        path = resumed.path.resolve()
        same = [name for name, report in reports.items() if report.resolve() == path]
        return dict.fromkeys(same, self._records.only_before)

    def _add_to_history(self, pytest_session: pytest.Session, outcomes: list[Outcome]) -> None:
        lines = self._files.lines
        try:
            added = self._history.finish(outcomes)
        except Exception as error:  # noqa: BLE001  # any: sinks, and the summary, come next
            pytest_session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
            lines.append(f"history NOT written: {unforeseen(error)}")
            return
        if added is None:
            return
        strict = added.waits and self._config.option.dlperf_strict
        if added.lost:
            pytest_session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
        elif strict and pytest_session.exitstatus == pytest.ExitCode.OK:
            pytest_session.exitstatus = pytest.ExitCode.TESTS_FAILED
        lines.append(added.line + (": exit code 1" if strict else ""))

    def _foresee(self, outcomes: list[Outcome]) -> tuple[list[Outcome], str]:
        """Return ``outcomes`` with what later sessions can detect by what was stored.

        Every process has judged by now. The second value says why that is not known.
        """
        if not any(outcome.update for outcome in outcomes):
            return outcomes, ""
        settings = self._session.settings
        try:
            foreseen = with_later_sessions(
                self._session.resources.store,
                outcomes,
                settings.rule,
                count_family=not settings.family_given,
            )
        except Exception as error:  # noqa: BLE001  # any: the reports come next, without it
            why = error if isinstance(error, DlperfError) else unforeseen(error)
            return outcomes, f"what later sessions can detect is NOT known: {why}"
        return foreseen, ""

    def write_summary(self, terminal: pytest.TerminalReporter) -> None:
        """Print the table, the sentences, and what was not judged."""
        if self._end is not None:
            write_summary(terminal, self._config, self._session.settings, self._end)


def _has_measured(outcome: Outcome) -> bool:
    """Return whether something was measured, or counted, of a case."""
    return outcome.measurement is not None or outcome.cost is not None or outcome.share_done
