"""Cases without a verdict: each gets an outcome that says what ended it, or its session.

The outcome is on test reports like any other, so that JUnit, the results, the page and every other
report have it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

from pytest_dlperf.core.errors import DlperfError
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.core.writable import error_words, message_of
from pytest_dlperf.flow.unfinished import unfinished
from pytest_dlperf.judge.verdict import plain_judgement
from pytest_dlperf.session.case_record import Planned
from pytest_dlperf.session.resources import Resources
from pytest_dlperf.session.session import Session


def outcome_without_verdict(
    planned: Planned,
    session: Session,
    why: str,
    *,
    verdict: Verdict = Verdict.NOT_RUN,
    interrupted: bool = True,
) -> Outcome:
    """Return the outcome of a case without a verdict, by the session's policy.

    ``why`` is a clause on what ended it, and ``interrupted`` whether it had begun, or would have.
    What was measured so far is shown, and not judged; a run that failed is the error of the case.
    """
    resources, settings = session.resources, session.settings
    reason = f"it was not measured: {why}"
    outcome = None
    try:
        outcome = _unfinished(planned, resources, why)
    except Exception as error:  # noqa: BLE001  # any: the reports are written without it
        words = message_of(error) if isinstance(error, DlperfError) else error_words(error)
        reason = f"{why}; what was measured of it cannot be read: {words}"
    if outcome is None and session.resumed is not None:
        left = session.resumed.unfinished(planned.case)
        if left is not None and verdict is Verdict.NOT_RUN:
            # The next session goes on from the runs that the one before this has left
            return _left(left, planned, session, why)
    if outcome is None:
        outcome = Outcome(
            case=planned.case, judgement=plain_judgement(verdict, reason), time=_now()
        )
    elif outcome.judgement.verdict is Verdict.ERROR:
        interrupted = False  # what a run failed by is final: a session that resumes takes it
    elif outcome.measurement is not None:
        interrupted = True
    judgement = outcome.judgement
    if verdict is Verdict.ERROR and judgement.verdict is Verdict.NOT_RUN:
        refused = judgement.throughput.as_refused(verdict)
        judgement = plain_judgement(verdict, judgement.reason, throughput=refused)
    outcome = replace(
        outcome, judgement=judgement, node_id=planned.node_id, interrupted=interrupted
    )
    outcome = replace(outcome, failed=settings.fails(outcome))
    return resources.written(resources.checkout.written_into(outcome))


def _unfinished(planned: Planned, resources: Resources, why: str) -> Outcome | None:
    """Return the outcome of runs, or pairs, without a verdict; None where the case has none.

    Raises what ``flow.unfinished`` does.
    """
    has_runs = resources.has_bench or resources.folder_of_workers
    if resources.jobs is not None or not has_runs:
        return None
    case, runs = planned.case, resources.bench.runs
    if not (runs.load(case) or runs.failure(case) or runs.pairs(case)):
        return None
    return unfinished(case, resources.bench_of(case), why, workload_folder=planned.folder)


def outcome_so_far(planned: Planned, resources: Resources) -> Outcome:
    """Return what the results say of a case while it is measured: they may be all that is left."""
    reason = (
        "this was written before the case had a verdict: its session still runs, or pytest was "
        "killed, or ended at once, as by pytest-timeout's method thread"
    )
    return resources.checkout.written_into(
        Outcome(
            case=planned.case,
            judgement=plain_judgement(Verdict.ERROR, reason),
            node_id=planned.node_id,
            failed=True,
            interrupted=True,
            time=_now(),
        )
    )


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _left(left: Outcome, planned: Planned, session: Session, why: str) -> Outcome:
    """Return what an ended session had left of a case, without a verdict in this one.

    A budget may have cut it short there: it has a verdict then, which is not this session's.
    """
    throughput = left.judgement.throughput
    if left.judgement.verdict is not Verdict.NOT_RUN:
        throughput = throughput.as_refused(Verdict.NOT_RUN)
    reason = f"its runs are those of the session that ended at {left.time}, not judged: {why}"
    judgement = plain_judgement(Verdict.NOT_RUN, reason, throughput=throughput)
    outcome = replace(left, judgement=judgement, node_id=planned.node_id, interrupted=True)
    return replace(outcome, failed=session.settings.fails(outcome))
