"""The whole flow of one case: case -> launch -> measure -> judge -> outcome."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import date, datetime, timezone
from typing import Any

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import BudgetSpentError, DlperfError, NotRunError
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.place import Share
from pytest_dlperf.core.verdict import Judgement, Rule, Verdict
from pytest_dlperf.flow.ab import compare_arms, unmeasured
from pytest_dlperf.flow.bench import Bench
from pytest_dlperf.flow.offline.from_logs import judge_by_logs
from pytest_dlperf.flow.runner import Runner, stays_disturbed
from pytest_dlperf.judge.estimates import judge
from pytest_dlperf.judge.expected import with_known
from pytest_dlperf.judge.refusals import cut_short, never_measured, with_note
from pytest_dlperf.judge.screen import more_runs
from pytest_dlperf.measure.exhausted import file_words


def run_case(case: Case, bench: Bench, *, workload_folder: str, misfit: str = "") -> Outcome:
    """Take one case from its definition to its verdict; an error becomes a verdict as well.

    ``misfit`` says why the case cannot run although it was asked for, where that is known.
    """
    started_s = time.monotonic()
    baseline: Baseline | None = None
    measurement: Measurement | None = None
    facts: dict[str, Any] = {}
    against = unmeasured(bench)
    share_done = False
    try:
        if bench.logs is not None:
            baseline = bench.baseline(case)
            hardware = bench.machine_class(case)
            measurement, judgement = judge_by_logs(
                case, bench.logs, baseline, bench.rule, hardware=hardware
            )
        elif against is not None:
            pairs = compare_arms(case, bench, workload_folder=workload_folder, misfit=misfit)
            measurement, judgement, facts = pairs.measurement, pairs.judgement, pairs.facts
            against = pairs.against
        else:
            with bench.together(case):
                bench.check(case, misfit)
                baseline = bench.baseline(case)
                with bench.lease(case) as lease:
                    runner = Runner(bench=bench, lease=lease, workload_folder=workload_folder)
                    runner.check_nodes(case)  # before anything trains, its parent as well
                    share = bench.share(case)
                    if share is None or share.node_rank == 0:
                        measurement, judgement, facts = measure_and_judge(case, runner, baseline)
                    else:
                        runner.run_share(case, share)
                        judgement, share_done = _left_to_node_0(case, share), True
    except BudgetSpentError:
        judgement = never_measured(case.id, bench.budget_words)
    except NotRunError as error:
        judgement = Judgement(verdict=Verdict.NOT_RUN, reason=str(error))
    except DlperfError as error:
        judgement = Judgement(verdict=Verdict.ERROR, reason=str(error))
    except OSError as error:
        # A disk that is full, a folder that somebody removed: the session goes on without it.
        reason = f"{case.id}: {file_words(error, bench.folder)}"
        judgement = Judgement(verdict=Verdict.ERROR, reason=reason)
    now = datetime.now(timezone.utc)
    if against is None:  # known is a slowdown since the stored sessions
        judgement = with_known(judgement, case.known, now.date())
    try:
        published = bench.published_value(case)
    except DlperfError as error:
        published = {}
        judgement = replace(judgement, reason=f"{judgement.reason}\n{error}")
    return Outcome(
        case=case,
        judgement=judgement,
        measurement=measurement,
        against=against,
        environment=bench.environment(case, facts),
        baseline_sessions=baseline.sessions if baseline else (),
        published=published,
        time=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        elapsed_s=time.monotonic() - started_s,
        folder=str(bench.folder / case.id),
        share_done=share_done,
    )


def _left_to_node_0(case: Case, share: Share) -> Judgement:
    runs = case.protocol.runs
    return Judgement(
        verdict=Verdict.NOT_RUN,
        reason=f"the share of node {share.node_rank} is done ({runs} "
        f"{'run' if runs == 1 else 'runs'} of {case.layout}); node 0 judges it",
    )


def measure_and_judge(
    case: Case, runner: Runner, baseline: Baseline | None
) -> tuple[Measurement, Judgement, dict[str, Any]]:
    """Run a case as often as its verdict needs: screen, then confirm with fresh runs."""
    parent, rule = case.parent(), runner.bench.rule_for(case)
    wanted, judgement = more_runs(case, None, 0, rule), None
    while True:
        # As often as the case: what certifies that with few runs knows its parent as well.
        of_parent = min(wanted, parent.protocol.runs) if parent else 0
        parents = runner.runs(parent, of_parent) if parent else []
        runs = runner.runs(case, wanted, judgement)
        if not runs:
            raise BudgetSpentError(case.id)
        measurement = runner.measurement(case, runs, parents)
        budget, is_short = runner.bench.budget_words, runner.is_cut_short(case, runs, wanted)
        if is_short or (parent and runner.is_cut_short(parent, parents, of_parent)):
            measurement = with_note(measurement, budget)
        judgement = judge(case, measurement, baseline, rule)
        if is_short:
            return measurement, cut_short(judgement, budget), runs[0][1]
        more = more_runs(case, judgement, len(measurement.runs), rule)
        if more <= 0 or stays_disturbed(case, runs) or runner.bench.share(case):
            return measurement, judgement, runs[0][1]
        wanted = len(measurement.runs) + more


def judge_again(outcome: Outcome, baseline: Baseline, rule: Rule) -> Judgement:
    """Return the verdict on a measured ``outcome`` against another ``baseline``."""
    if outcome.measurement is None:
        return outcome.judgement
    judgement = judge(outcome.case, outcome.measurement, baseline, rule)
    return with_known(judgement, outcome.case.known, date.fromisoformat(outcome.time[:10]))
