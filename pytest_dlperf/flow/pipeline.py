"""The whole flow of one case: case -> launch -> measure -> judge -> outcome.

A mode measures and judges: by logs, by the cost of a step, by pairs of two arms, or by runs
against stored sessions.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.baseline import Baseline, level_of
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import BudgetSpentError, CaseError, DlperfError, NotRunError
from pytest_dlperf.core.measurement import SPEEDUP_UNKNOWN, Environment
from pytest_dlperf.core.outcome import Against, Confirmation, Explanation, Outcome
from pytest_dlperf.core.packages import PACKAGES, PackageChange, package_changes
from pytest_dlperf.core.place import NodePart
from pytest_dlperf.core.run import MeasuredRun, Problem
from pytest_dlperf.core.verdict import Judgement, Rule, Verdict
from pytest_dlperf.core.wire import INTERPRETER_VARIABLES
from pytest_dlperf.core.writable import unforeseen
from pytest_dlperf.flow.ab import compare_arms, unmeasured
from pytest_dlperf.flow.confirm import can_decide, confirmed, second_stage
from pytest_dlperf.flow.cost import judge_by_cost
from pytest_dlperf.flow.explain import (
    REGRESSED,
    explain_stored,
    explained,
    is_wanted,
)
from pytest_dlperf.flow.looks import Look, Measured, until_decided
from pytest_dlperf.flow.runner import Runner
from pytest_dlperf.judge.budget import marked_cut_short, never_measured
from pytest_dlperf.judge.expected import with_known
from pytest_dlperf.judge.gates import unmoved_by_speed
from pytest_dlperf.judge.tolerance import tolerance_of
from pytest_dlperf.judge.verdict import judge, plain_judgement, with_finding
from pytest_dlperf.measure.exhausted import file_words

if TYPE_CHECKING:
    from pytest_dlperf.flow.bench import Bench, SideBySide
    from pytest_dlperf.flow.from_logs import LogFolder


#: Of a case before it is measured.
_NOTHING: Final = plain_judgement(Verdict.NOT_RUN, "it was not measured")


def run_case(case: Case, bench: Bench, *, workload_folder: str) -> Outcome:
    """Take one case from its definition to its verdict; an error becomes a verdict as well.

    ``workload_folder`` is that of its test, where workloads are found.
    """
    started_s = time.monotonic()
    mode = mode_of(bench, workload_folder)
    outcome = _outcome_of(case, bench, mode, measured_by(mode, case, bench))
    return replace(outcome, elapsed_s=time.monotonic() - started_s)


def refused_case(case: Case, bench: Bench, why: str) -> Outcome:
    """Return the outcome of a case that cannot run here, and is an error, as ``why`` says."""
    mode = mode_of(bench, "")
    judgement = plain_judgement(Verdict.ERROR, f"{case.id}: {why}")
    return _outcome_of(case, bench, mode, replace(mode.so_far, judgement=judgement))


def _outcome_of(case: Case, bench: Bench, mode: Mode, measured: Measured) -> Outcome:
    now = datetime.now(timezone.utc)
    judgement = measured.judgement
    # Expected slowdowns are relative to stored sessions
    if measured.against is None and not bench.traces:
        judgement = with_known(judgement, case.known, now.date(), _fixed(case, measured))
    judgement = bench.stored.with_folder(judgement)
    environment = bench.hosts.environment(case, measured.facts)
    published: Mapping[str, str | float] = {}
    changes: tuple[PackageChange, ...] = ()
    try:
        if not bench.traces:
            published = bench.stored.published_value(case)
        changes = (
            bench.stored.package_changes(mode.baseline, environment)
            if measured.against is None
            else package_changes(measured.packages_before, environment.packages)
        )
        if measured.against is None and (words := _otherwise(mode.baseline, environment)):
            judgement = with_finding(judgement, "variables-differ", text=words)
    except DlperfError as error:  # what was measured is not lost by it
        judgement = with_finding(judgement, "not-recorded", text=str(error))
    return Outcome(
        case=measured.case or case,
        judgement=judgement,
        measurement=measured.measurement,
        against=measured.against,
        confirmation=measured.confirmation,
        explanation=measured.explanation,
        cost=measured.cost,
        environment=environment,
        package_changes=changes,
        baseline_sessions=mode.baseline.sessions if mode.baseline else (),
        published=published,
        time=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        folder=str(bench.folder / case.id),
        share_done=measured.share_done,
    )


def _otherwise(baseline: Baseline | None, environment: Environment) -> str:
    """Return which variables that slow or instrument ranks the stored session did not have so.

    Empty where none differs, or where one of the two did not record them.
    """
    level = level_of(() if baseline is None else baseline.sessions)
    before, now = level[-1].software if level else {}, environment.software
    if PACKAGES not in before or PACKAGES not in now:
        return ""
    names = [n for n in sorted({*before, *now}) if n.startswith(INTERPRETER_VARIABLES)]
    words = [
        f"{name}={now[name]} (was {before.get(name, 'not set')})"
        if name in now
        else f"{name} not set (was {before[name]})"
        for name in names
        if before.get(name) != now.get(name)
    ]
    if not words:
        return ""
    return (
        "variables that slow or instrument the ranks are not those of the stored session: "
        f"{', '.join(words)}"
    )


def measured_by(mode: Mode, case: Case, bench: Bench) -> Measured:
    """Return what ``mode`` measured; an error becomes the verdict on what is known."""
    try:
        return mode.measure(case)
    except BudgetSpentError:
        judgement = never_measured(case.id, bench.policy.budget_text)
    except NotRunError as error:
        judgement = plain_judgement(Verdict.NOT_RUN, str(error))
    except DlperfError as error:
        judgement = plain_judgement(Verdict.ERROR, str(error))
    except Exception as error:  # noqa: BLE001  # any: the session goes on
        if isinstance(error, OSError) and error.errno is not None:
            # A full disk or a removed folder fails this case only.
            words = file_words(error, bench.folder)
        else:
            place = bench.watcher.place()
            words = f"while {place}, {unforeseen(error)}" if place else unforeseen(error)
        judgement = plain_judgement(Verdict.ERROR, f"{case.id}: {words}")
    return replace(mode.so_far, judgement=judgement)


class Mode(ABC):
    """A way to measure a case and to judge it. It keeps what an error must not lose."""

    def __init__(self, bench: Bench, against: Against | None = None) -> None:
        self._bench = bench
        #: The baseline of the case, once it is read; None if none is stored.
        self.baseline: Baseline | None = None
        #: What it measured so far: an error when hosts are given back comes after a measurement.
        self.so_far = Measured(measurement=None, judgement=_NOTHING, against=against)

    @abstractmethod
    def measure(self, case: Case) -> Measured:
        """Measure and judge ``case``; raise ``DlperfError`` where that cannot be done."""


def mode_of(bench: Bench, workload_folder: str) -> Mode:
    """Return how the cases of a session are measured."""
    if bench.logs is not None:
        return ByLogs(bench, bench.logs)
    if bench.traces:
        return ByCost(bench, workload_folder)
    if bench.side_by_side is not None:
        return ByPairs(bench, bench.side_by_side, workload_folder)
    return ByStoredSessions(bench, workload_folder)


class ByLogs(Mode):
    """Reads the logs of trainings that ran elsewhere, in place of training."""

    def __init__(self, bench: Bench, logs: LogFolder) -> None:
        super().__init__(bench)
        self._logs = logs

    def measure(self, case: Case) -> Measured:
        """Judge the log of ``case``."""
        # Other sessions need no NumPy, which takes a tenth of a second.
        from pytest_dlperf.flow.from_logs import judge_by_logs

        bench = self._bench
        self.baseline = bench.baseline(case)
        measurement, judgement = judge_by_logs(
            case,
            self._logs,
            self.baseline,
            bench.policy.rule,
            hardware=bench.hosts.machine_class(case),
        )
        return Measured(measurement=measurement, judgement=judgement)


class ByCost(Mode):
    """Traces a step, and compares what it asks for: nothing is timed."""

    def __init__(self, bench: Bench, workload_folder: str) -> None:
        sides = bench.side_by_side
        super().__init__(bench, against=None if sides is None else unmeasured(sides))
        self._workload_folder = workload_folder

    def measure(self, case: Case) -> Measured:
        """Trace ``case``, and compare its cost with the stored one or the other arm's."""
        return judge_by_cost(case, self._bench, self._workload_folder)


class ByPairs(Mode):
    """Trains pairs of runs, one of each arm."""

    def __init__(self, bench: Bench, sides: SideBySide, workload_folder: str) -> None:
        super().__init__(bench, against=unmeasured(sides))
        self._workload_folder = workload_folder

    def measure(self, case: Case) -> Measured:
        """Train pairs of ``case`` until they decide."""
        return compare_arms(case, self._bench, workload_folder=self._workload_folder)


class ByStoredSessions(Mode):
    """Trains runs, and judges them against the sessions that a baseline holds."""

    def __init__(self, bench: Bench, workload_folder: str) -> None:
        super().__init__(bench)
        self._workload_folder = workload_folder

    def measure(self, case: Case) -> Measured:
        """Train ``case`` as often as its verdict needs."""
        bench = self._bench
        stage = None
        with bench.hosts.together(case):
            bench.check(case)
            self.baseline = bench.baseline(case)
            before_pairs = can_decide(case, bench, self.baseline)
            screened = replace(case, protocol=case.protocol.screening) if before_pairs else case
            bench = bench if before_pairs else bench.without_pairs()
            with bench.hosts.lease(case, bench.watcher) as lease:
                runner = Runner(
                    bench=bench,
                    lease=lease,
                    workload_folder=self._workload_folder,
                    before_pairs=before_pairs,
                )
                runner.check_nodes(case)  # before anything trains, its parent as well
                part = bench.hosts.node_part(case)
                if part is None or part.node_rank == 0:
                    self.so_far = measure_and_judge(screened, runner, self.baseline)
                    stage = second_stage(screened, bench, self.so_far, self.baseline)
                    if stage is not None and stage.impossible:
                        self.so_far = _judged_alone(screened, bench, self.so_far, self.baseline)
                    if part is None and (stage is None or stage.impossible):
                        self.so_far = self._explained(case, runner, self.so_far)
                else:
                    runner.run_node_part(case, part)
                    judgement = _left_to_node_0(case, part)
                    self.so_far = Measured(measurement=None, judgement=judgement, share_done=True)
        if stage is not None:
            folder = self._workload_folder
            self.so_far = confirmed(case, bench, self.so_far, stage, workload_folder=folder)
        return self.so_far

    def _explained(self, case: Case, runner: Runner, measured: Measured) -> Measured:
        """Return ``measured`` with its cause, by stored profiles of before, where it is wanted."""
        bench, judgement = self._bench, measured.judgement
        today = datetime.now(timezone.utc).date()
        with_slowdown = with_known(judgement, case.known, today, _fixed(case, measured))
        judged = replace(judgement, known=with_slowdown.known)
        if not is_wanted(bench.policy, judged, default=REGRESSED):
            return measured
        try:
            profiles = bench.stored.profiles(case, bench.hosts.machine_class(case))
            if not profiles and bench.policy.explain is None:
                return measured
            explanation = explain_stored(case, runner, measured, profiles)
        except DlperfError as error:
            explanation = Explanation(note=str(error))
        judgement = explained(judgement, explanation)
        return replace(measured, judgement=judgement, explanation=explanation)


def _left_to_node_0(case: Case, part: NodePart) -> Judgement:
    runs = case.protocol.runs
    return plain_judgement(
        Verdict.NOT_RUN,
        f"the part of node {part.node_rank} is done ({runs} "
        f"{'run' if runs == 1 else 'runs'} of {case.layout}); node 0 judges it",
    )


def measure_and_judge(case: Case, runner: Runner, baseline: Baseline | None) -> Measured:
    """Run a case as often as its verdict needs."""
    parent, rule = case.parent(), runner.bench.policy.rule
    unknown: tuple[Problem, ...] = ()
    budget = runner.bench.policy.budget_text

    def look(wanted: int, judgement: Judgement | None) -> Look:
        nonlocal parent, unknown
        # Noise known well enough to certify the case with few runs is known for its parent too.
        of_parent = min(wanted, parent.protocol.runs) if parent else 0
        parents: list[MeasuredRun] = []
        if parent:
            try:
                parents = runs_of_parent(runner, parent, of_parent)
            except DlperfError as error:
                # A model may need all its devices: it is judged without a speedup
                unknown = (_without_speedup(runner, parent, error),)
                parent = None
        runs = runner.runs(case, wanted, judgement)
        if not runs:
            raise BudgetSpentError(case.id)
        measurement = runner.measurement(case, runs, parents)
        measurement = replace(measurement, problems=(*measurement.problems, *unknown))
        is_short = runner.is_cut_short(case, runs, wanted)
        if is_short or (parent and runner.is_cut_short(parent, parents, of_parent)):
            why = f"the budget of {budget} was spent before all its runs"
            measurement = marked_cut_short(measurement, why)
        judgement = judge(case, measurement, baseline, rule)
        return Look(
            Measured(measurement=measurement, judgement=judgement, facts=runs[0].facts),
            is_cut_short=is_short,
            is_last=runner.stays_disturbed(case, runs)
            or runner.bench.hosts.node_part(case) is not None,
        )

    return until_decided(case, budget, look)


def _judged_alone(
    case: Case, bench: Bench, measured: Measured, baseline: Baseline | None
) -> Measured:
    """Return ``measured`` with the verdict by stored sessions where its runs exclude pairs."""
    assert measured.measurement is not None
    rule = bench.without_pairs().policy.rule
    return replace(measured, judgement=judge(case, measured.measurement, baseline, rule))


def runs_of_parent(runner: Runner, parent: Case, wanted: int) -> list[MeasuredRun]:
    """Return the runs of the case on the layout that a speedup is over; raise ``CaseError``."""
    if runner.bench.hosts.node_part(parent) is not None:
        raise CaseError(
            "nodes that are started by hand measure a reference of one node only; "
            "name the nodes with --dlperf-hosts=n1:8,n2:8",
            subject=parent.id,
        )
    return runner.runs(parent, wanted)


def _without_speedup(runner: Runner, parent: Case, error: DlperfError) -> Problem:
    cause = error.first_line().strip().rstrip(".")
    return Problem(
        code=SPEEDUP_UNKNOWN,
        message=f"the speedup over {parent.layout.words} is not known, as that failed: {cause} "
        f"({runner.bench.folder / parent.id}); speedup=None leaves it out, and a layout, such as "
        'speedup="1n8g", compares with that',
    )


def judge_again(outcome: Outcome, baseline: Baseline | None, rule: Rule) -> Judgement:
    """Return the verdict on a measured ``outcome`` against another ``baseline``.

    What pairs decided stays, as long as they were with the code of the stored session. Raises
    ``CaseError`` for what the judge cannot believe.
    """
    found = outcome.confirmation
    if outcome.measurement is None or (found is not None and _still_decides(found, baseline)):
        return outcome.judgement
    used = outcome.judgement.throughput.tolerance
    if used is None or used > tolerance_of(outcome.case, baseline, rule):
        # As it was judged, or there was nothing to judge it against
        rule = replace(rule, without_pairs=True)
    judgement = judge(outcome.case, outcome.measurement, baseline, rule)
    today, fixed = date.fromisoformat(outcome.time[:10]), _fixed(outcome.case, outcome)
    return with_known(judgement, outcome.case.known, today, fixed)


def _still_decides(confirmation: Confirmation, baseline: Baseline | None) -> bool:
    """Whether the second stage came to an end, with the code of the session that is stored."""
    if confirmation.impossible or baseline is None or not baseline.level:
        return False
    session = baseline.anchor if confirmation.anchor else baseline.level[-1]
    return (
        session is not None
        and not session.may_be_modified
        and session.commit == confirmation.commit
    )


def _fixed(case: Case, measured: Measured | Outcome) -> frozenset[str]:
    """Return the gated metrics that speed does not move."""
    measurement = measured.measurement
    return frozenset() if measurement is None else unmoved_by_speed(case, measurement)
