"""The part of a session that measures: it runs the case of a test, in the test's process."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from pytest_dlperf.cases.selection import Selected
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import DlperfError
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.secret_texts import masked
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.core.writable import message_of, unforeseen
from pytest_dlperf.flow.pipeline import refused_case, run_case
from pytest_dlperf.judge.verdict import plain_judgement, with_finding
from pytest_dlperf.session import rounds
from pytest_dlperf.session.exits import warn
from pytest_dlperf.session.resumed import Now, is_judged, now_of
from pytest_dlperf.session.session import Session
from pytest_dlperf.session.stored_outcome import note, store_baseline


class Measurer:
    """Measures, judges and stores the cases of a process, each as the body of its test."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._settings, self._resources = session.settings, session.resources

    def run(self, selected: Selected, item: pytest.Item) -> Outcome:
        """Run a case as the body of ``item``; return its outcome, failed or not.

        A further attempt of the same test has the verdict of the one before; after an error the
        case is measured again.
        """
        case, runs = selected.case, self._resources.bench.runs
        earlier = self.judged(case)
        if earlier is not None:
            return earlier
        if runs.outcome(case) is not None and runs.failure(case):
            runs.forget(case)
        outcome = self._attempt(selected, item)
        try:
            runs.keep(outcome)
        except OSError as error:
            # A disk that is full must not lose what was measured and judged
            warn(f"{case.id}: its outcome is not kept for a rerun: {error}")
        return outcome

    def judged(self, case: Case) -> Outcome | None:
        """Return the verdict that this session has on ``case`` already; None without one."""
        if not self._resources.has_bench or self._settings.runs_nothing:
            return None
        outcome = self._resources.bench.runs.outcome(case)
        return outcome if outcome is not None and is_judged(outcome) else None

    def _attempt(self, selected: Selected, item: pytest.Item) -> Outcome:
        case, resources = selected.case, self._resources
        so_far = Outcome(
            case=case,
            judgement=plain_judgement(Verdict.NOT_RUN, "it was not measured"),
            node_id=item.nodeid,
            time=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        try:
            taken = self._taken(case, item.nodeid)
            if taken is not None:
                return resources.written(taken)
            differs = self._go_on(case)
            so_far = resources.written(self._measured(selected, item))
            outcome = resources.written(self._judged(so_far))
        except (pytest.exit.Exception, pytest.UsageError):  # of the session, and no case's
            raise
        except Exception as error:  # noqa: BLE001  # any: it ends this case, and no other one
            words = message_of(error) if isinstance(error, DlperfError) else unforeseen(error)
            reason = masked(f"{case.id}: {words}", resources.secrets(case))
            return replace(so_far, judgement=plain_judgement(Verdict.ERROR, reason), failed=True)
        if not differs:
            return outcome
        judgement = with_finding(outcome.judgement, "measured-again", text=differs)
        return replace(outcome, judgement=judgement)

    def _taken(self, case: Case, node_id: str) -> Outcome | None:
        """Return the outcome of ``case`` that an interrupted session has; None to measure it.

        It is stored where this session stores and that one had not.
        """
        resumed = self._session.resumed
        if resumed is None:
            return None
        outcome = resumed.outcome_now(case, node_id, self._resources)
        if outcome is None or outcome.update or not self._settings.update:
            return outcome
        return self._stored(outcome)

    def _go_on(self, case: Case) -> str:
        """Go on from the runs of an ended session; return why what it has is not used."""
        resumed, resources = self._session.resumed, self._resources
        if resumed is None:
            return ""

        def now() -> Now:
            return now_of(case, resources)

        return resumed.differs(case, now) or resumed.go_on(case, resources.bench.runs, now)

    def _measured(self, selected: Selected, item: pytest.Item) -> Outcome:
        case, resources = selected.case, self._resources
        bench, jobs = resources.bench_of(case), resources.jobs
        if jobs is not None and selected.error:
            outcome = jobs.refused(case, selected.error)
        elif jobs is not None:
            outcome = jobs.outcome(case)
        else:
            rounds.forget_changed(case, bench, item, self._session.records)
            refused = selected.error or bench.runs.failure(case)
            with resources.watcher.watched(case):
                outcome = (
                    refused_case(case, bench, refused)
                    if refused
                    else run_case(case, bench, workload_folder=str(item.path.parent))
                )
        return resources.checkout.written_into(replace(outcome, node_id=item.nodeid))

    def _judged(self, outcome: Outcome) -> Outcome:
        """Return a measured ``outcome`` as the session stores it, or fails its test."""
        if outcome.share_done:
            return outcome
        if self._resources.logs is None:
            parent, runs = outcome.case.parent(), self._resources.bench.runs
            parent_runs = [run.summary for run in runs.load(parent)] if parent else []
            note(self._settings.workdir, outcome, parent_runs)
        if self._settings.update:
            return self._stored(outcome)
        return replace(outcome, failed=self._settings.fails(outcome))

    def _stored(self, outcome: Outcome) -> Outcome:
        """Return ``outcome`` as it is stored; one that did not run has nothing to store."""
        settings, fails = self._settings, self._settings.fails(outcome)
        if outcome.judgement.verdict is Verdict.NOT_RUN:
            return replace(outcome, failed=fails)
        # Until the test has the outcome: what is stored is reported as well
        self._session.ending.hold()
        bench = self._resources.bench_of(outcome.case)
        return store_baseline(outcome, bench, settings, fails=fails)
