"""What a session measured of a case before it was ended: runs that came to no verdict."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.flow.runner import Runner
from pytest_dlperf.judge.budget import marked_cut_short
from pytest_dlperf.judge.verdict import judge, plain_judgement

if TYPE_CHECKING:
    from pytest_dlperf.flow.bench import Bench


def unfinished(case: Case, bench: Bench, why: str, *, workload_folder: str) -> Outcome | None:
    """Return the outcome of a case whose session was ended, for ``why``, after some of its runs.

    The change that they show is seen, and not judged; pairs are counted only. A run that failed
    is the error of the case. Raises ``DlperfError`` where the baseline cannot be read, and
    ``ValueError`` or ``KeyError`` where the runs cannot. None where the session has no run of it.
    """
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    if failure := bench.runs.failure(case):
        return Outcome(
            case=case,
            judgement=plain_judgement(Verdict.ERROR, failure),
            environment=bench.hosts.environment(case, {}),
            time=now,
        )
    runs = bench.runs.load(case)
    if not runs:
        return None
    count = f"{len(runs)} {'run was' if len(runs) == 1 else 'runs were'} measured"
    if bench.side_by_side is not None:
        reason = f"{count} of this arm, and their pairs are not kept: {why}"
        judgement = plain_judgement(Verdict.NOT_RUN, reason)
        return Outcome(case=case, judgement=judgement, time=now)
    runner = Runner(bench=bench, lease=None, workload_folder=workload_folder)
    measurement = marked_cut_short(runner.measurement(case, runs, []), why)
    baseline = bench.baseline(case)
    comparison = judge(case, measurement, baseline, bench.policy.rule).throughput
    return Outcome(
        case=case,
        judgement=plain_judgement(
            Verdict.NOT_RUN,
            f"{count}, and not judged: {why}",
            throughput=comparison.as_refused(Verdict.NOT_RUN),
        ),
        measurement=measurement,
        environment=bench.hosts.environment(case, runs[0].facts),
        baseline_sessions=baseline.sessions if baseline else (),
        time=now,
        folder=str(bench.folder / case.id),
    )
