"""Cases without a verdict: each gets an outcome that says what ended it, or its session.

The outcome is on test reports like any other, so that JUnit, the results, the page and every other
report have it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.codec import decode, encode
from pytest_dlperf.core.errors import DlperfError
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.core.writable import error_words, message_of
from pytest_dlperf.judge.verdict import said
from pytest_dlperf.session.collection import selected_of

if TYPE_CHECKING:
    from pytest_dlperf.session.perf_session import PerfSession

#: On the first report of an xdist worker: all cases that the session is to run.
PLANNED: Final = "dlperf_planned"


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The test of a case that is to run."""

    node_id: str
    #: Of pytest: file, line from 0, name.
    location: tuple[str, int | None, str]
    case: Case
    #: Folder of the test, where workloads are found.
    folder: str


def planned_of(items: Iterable[pytest.Item]) -> list[Planned]:
    """Return the perf tests among ``items``."""
    return [
        Planned(
            node_id=item.nodeid,
            location=item.location,
            case=selected.case,
            folder=str(item.path.parent),
        )
        for item in items
        if (selected := selected_of(item)) is not None
    ]


def announce(report: pytest.TestReport, session: PerfSession) -> None:
    """Put what an xdist worker is to run onto its first report: only workers collect."""
    planned, session.to_announce = session.to_announce, ()
    if planned:
        setattr(report, PLANNED, [encode(one) for one in planned])


_PLANNED_FILE: Final = "planned.json"


def keep_planned(planned: Sequence[Planned], folder: Path) -> None:
    """Write into the session's ``folder`` what is to run, before a worker's first report.

    All workers of pytest-xdist write the same.
    """
    path = folder / _PLANNED_FILE
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps([encode(one) for one in planned]), encoding="utf-8")
    temporary.replace(path)


def kept_planned(folder: Path) -> list[Planned]:
    """Return what the workers that share ``folder`` were to run; nothing where none has said."""
    path = folder / _PLANNED_FILE
    if not path.exists():
        return []
    return [decode(Planned, one) for one in json.loads(path.read_text(encoding="utf-8"))]


class Reached:
    """How far a session came, from the reports of its tests."""

    def __init__(self) -> None:
        #: The tests that are to run, by node id.
        self.planned: dict[str, Planned] = {}
        self._ended: set[str] = set()
        #: The xdist node that began a test, by its node id: JUnit tells reports apart by it.
        self._began_on: dict[str, Any] = {}

    def plan(self, planned: Iterable[Planned]) -> None:
        """Take the tests that are to run."""
        self.planned |= {one.node_id: one for one in planned}

    def take(self, report: pytest.TestReport) -> None:
        """Take a report of a perf test."""
        self.plan(decode(Planned, one) for one in getattr(report, PLANNED, ()))
        self._began_on[report.nodeid] = getattr(report, "node", None)
        if report.when == "teardown":
            self._ended.add(report.nodeid)

    def missing(self, outcomes: Iterable[Outcome]) -> list[Planned]:
        """Return the tests that came neither to an outcome nor to their end, in their order."""
        known = self._ended | {outcome.node_id for outcome in outcomes}
        return [one for node_id, one in self.planned.items() if node_id not in known]

    def reports(self, planned: Planned) -> Iterator[pytest.TestReport]:
        """Yield the reports of a test that was not reached, yet without an outcome."""
        for when in ("call", "teardown"):
            node = self._began_on.get(planned.node_id)
            yield pytest.TestReport(
                nodeid=planned.node_id,
                location=planned.location,
                keywords={},
                outcome="passed",
                longrepr=None,
                when=when,
                **({} if node is None else {"node": node}),
            )


def outcome_of(
    planned: Planned,
    session: PerfSession,
    why: str,
    *,
    verdict: Verdict = Verdict.NOT_RUN,
    interrupted: bool = True,
) -> Outcome:
    """Return the outcome of a case without a verdict, by the session's policy.

    ``why`` is a clause on what ended it, and ``interrupted`` whether it had begun, or would have.
    What was measured so far is shown, and not judged; a run that failed is the error of the case.
    """
    reason = f"it was not measured: {why}"
    found = None
    try:
        found = session.unfinished(planned.case, planned.folder, why)
    except Exception as error:  # noqa: BLE001  # any: the reports are written without it
        words = message_of(error) if isinstance(error, DlperfError) else error_words(error)
        reason = f"{why}; what was measured of it cannot be read: {words}"
    if found is None and session.resumed is not None:
        left = session.resumed.unfinished(planned.case)
        if left is not None and verdict is Verdict.NOT_RUN:
            # The next session goes on from the runs that the one before this has left
            return _left(left, planned, session, why)
    if found is None:
        found = Outcome(case=planned.case, judgement=said(verdict, reason), time=_now())
    elif found.judgement.verdict is Verdict.ERROR:
        interrupted = False  # what a run failed by is final: a session that resumes takes it
    elif found.measurement is not None:
        interrupted = True
    if verdict is Verdict.ERROR and found.judgement.verdict is Verdict.NOT_RUN:
        seen = found.judgement.throughput.as_refused(verdict)
        found = replace(found, judgement=said(verdict, found.judgement.reason, throughput=seen))
    found = replace(
        found,
        node_id=planned.node_id,
        failed=session.fails(found.judgement),
        interrupted=interrupted,
    )
    return session.written(session.checkout.on(found))


def measured_now(planned: Planned, session: PerfSession) -> Outcome:
    """Return what the results say of a case while it is measured: they may be all that is left."""
    reason = (
        "pytest was gone while the case was measured: it was killed, or something ended it at "
        "once, as pytest-timeout's method thread does"
    )
    return session.checkout.on(
        Outcome(
            case=planned.case,
            judgement=said(Verdict.ERROR, reason),
            node_id=planned.node_id,
            failed=True,
            interrupted=True,
            time=_now(),
        )
    )


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _left(left: Outcome, planned: Planned, session: PerfSession, why: str) -> Outcome:
    """Return what an ended session had left of a case, without a verdict in this one.

    A budget may have cut it short there: it has a verdict then, which is not this session's.
    """
    seen = left.judgement.throughput
    if left.judgement.verdict is not Verdict.NOT_RUN:
        seen = seen.as_refused(Verdict.NOT_RUN)
    reason = f"its runs are those of the session that ended at {left.time}, not judged: {why}"
    judgement = said(Verdict.NOT_RUN, reason, throughput=seen)
    return replace(
        left,
        judgement=judgement,
        node_id=planned.node_id,
        failed=session.fails(judgement),
        interrupted=True,
    )
