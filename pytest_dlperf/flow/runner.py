"""Run a case as often as needed, each run a new launch, and make the Measurement of its runs.

Disturbed runs are repeated, and so are launches that fail by a fault of the infrastructure.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.option_names import OptionNames
from pytest_dlperf.core.place import NodePart
from pytest_dlperf.core.run import (
    MACHINE_DRIFTED,
    LaunchPlan,
    MeasuredRun,
    Problem,
    Run,
    RunSummary,
)
from pytest_dlperf.core.secret_texts import masked, secrets_of
from pytest_dlperf.core.verdict import Judgement
from pytest_dlperf.core.wire_profile import ProfiledSteps
from pytest_dlperf.flow.log_unit import check_unit
from pytest_dlperf.judge.problem_codes import UNSTEADY
from pytest_dlperf.judge.screen import samples_scaling
from pytest_dlperf.launch.base import Target
from pytest_dlperf.launch.plan import make_plan
from pytest_dlperf.launch.process.execute import execute
from pytest_dlperf.launch.remote.sent_to_hosts import copy_package
from pytest_dlperf.measure.gpu_watch import GpuWatch
from pytest_dlperf.measure.infrastructure import RETRIED, launch_failure
from pytest_dlperf.measure.nodes import await_other_nodes, check_node_part
from pytest_dlperf.measure.records import read_records
from pytest_dlperf.measure.summary import summarise

if TYPE_CHECKING:
    from pytest_dlperf.flow.bench import Bench

#: Most launches of one run: the first, and its repetitions.
_LAUNCHES: Final = 3
#: Before the first repetition, twice as long before the second: a port may be free by then.
_PAUSE_S: Final = 1.0
#: Length of the end of a log that is searched for the fault.
_LOG_BYTES: Final = 65536
#: How many disturbed runs are repeated at least; and at most where pairs can decide in their
#: place: one costs less than the six launches of three pairs, and a burst seldom meets two.
_FEWEST_REPEATS: Final = 2
_REPEATS_BEFORE_PAIRS: Final = 1


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Launches cases while it holds the host."""

    bench: Bench
    lease: int | None
    #: Folder of the test, where workloads are found.
    workload_folder: str
    #: Whether pairs of runs are possible, which decide where a machine stays disturbed.
    before_pairs: bool = False
    _targets: dict[str, Target] = field(default_factory=dict, init=False, repr=False)

    def target(self, case: Case) -> Target:
        """Return where the ranks of ``case`` run: the same for all its runs."""
        if case.id not in self._targets:
            self._targets[case.id] = self.bench.target(case, self.workload_folder)
        return self._targets[case.id]

    def runs(
        self, case: Case, wanted: int, judgement: Judgement | None = None, *, planned: int = 0
    ) -> list[MeasuredRun]:
        """Return the runs of ``case`` in this session, of which ``wanted`` are undisturbed.

        ``planned`` is shown as their number where more are to follow later.

        Runs that this session has already made are included. ``judgement`` is the verdict on
        them, None for no runs. Fewer are undisturbed if the machine stays disturbed: at most
        ``max_runs - runs`` (at least 2) are repeated, and one where pairs can decide. Fewer, or
        none, are launched if the session's budget is spent. Nodes that are started by hand always
        launch the protocol's runs, since one node cannot know what the others want. Raises
        ``CaseError``.
        """
        with self.bench.runs.exclusive(case):
            runs = self.bench.runs.load(case)
            while self.needs_more(case, runs, wanted) and self.has_time(runs):
                self.bench.watcher.run_starts(case, len(runs) + 1, max(wanted, planned))
                scaling = self.samples_scaling(case, runs, judgement)
                runs.append(self.launch(case, len(runs) + 1, scaling=scaling))
                self.bench.watcher.run_ended(case, runs[-1].summary)
            return runs

    def has_time(self, *found: Sequence[MeasuredRun], more_s: float = 0.0) -> bool:
        """Return whether another run like those would end within the budget; one of each arm.

        ``more_s`` is what they take beyond that, together.
        """
        budget = self.bench.policy.budget
        longest_s = [max((run.summary.elapsed_s for run in runs), default=0) for runs in found]
        return budget is None or budget.allows(sum(longest_s) + more_s)

    def is_cut_short(self, case: Case, found: Sequence[MeasuredRun], wanted: int) -> bool:
        """Return whether runs are missing and the budget has no time for them."""
        return self.needs_more(case, found, wanted) and not self.has_time(found)

    def needs_more(self, case: Case, found: Sequence[MeasuredRun], wanted: int) -> bool:
        """Return whether runs are missing, and disturbed ones may still be repeated."""
        if self.bench.hosts.node_part(case) is not None:
            return len(found) < case.protocol.runs
        return _undisturbed(found) < wanted and not self.stays_disturbed(case, found)

    def stays_disturbed(self, case: Case, runs: Sequence[MeasuredRun]) -> bool:
        """Return whether so many runs were disturbed that no more are repeated."""
        repeats = max(_FEWEST_REPEATS, case.protocol.max_runs - case.protocol.runs)
        return len(_disturbed(runs)) > (_REPEATS_BEFORE_PAIRS if self.before_pairs else repeats)

    def check_nodes(self, case: Case) -> None:
        """Raise ``CaseError`` if ``case`` has several nodes and they cannot train it together."""
        nodes = self.bench.hosts.nodes
        if nodes is not None and nodes.hosts_of(case):
            nodes.check(case, self.target(case))

    def run_node_part(self, case: Case, part: NodePart) -> None:
        """Run this node's part of ``case``, which node 0 judges; raise ``CaseError``."""
        for number in range(1, case.protocol.runs + 1):
            self.bench.watcher.run_starts(case, number, case.protocol.runs)
            # As node 0 decides, by the number of its runs.
            scaling = samples_scaling(case, None, number - 1)
            check_node_part(case, self._execute(case, number, scaling=scaling), part.node_rank)

    def samples_scaling(
        self, case: Case, found: Sequence[MeasuredRun], judgement: Judgement | None
    ) -> bool:
        """Return whether the next run samples facts about scaling; see ``judge/screen.py``."""
        if self.bench.hosts.node_part(case) is not None:
            return samples_scaling(case, None, len(found))
        undisturbed = [run.summary for run in found if not run.summary.disturbed]
        sampled = sum(summary.scaling is not None for summary in undisturbed)
        return samples_scaling(case, judgement, sampled)

    def launch(self, case: Case, number: int, *, scaling: bool) -> MeasuredRun:
        """Launch run ``number`` of ``case`` and return it; raise ``CaseError`` if it failed.

        With ``scaling`` it samples facts about scaling.
        """
        shared = self.bench.hosts.node_part(case) is not None
        launched = launch_again(
            case,
            lambda: self._execute(case, number, scaling=scaling),
            # Nodes that were started by hand would have to agree on it.
            is_allowed=lambda: not shared and self.has_time(),
            report=lambda what: self.bench.watcher.notice(case, what),
        )
        if shared:
            await_other_nodes(case, launched.run)
        return self.read(case, launched)

    def read(self, case: Case, launched: Launched) -> MeasuredRun:
        """Return what a run of ``case`` measured; raise ``CaseError`` if it failed."""
        try:
            measured = _measured(case, launched.run, self.bench.policy.options)
        except CaseError as error:
            raise launched.error(error) from error
        measured = measured._replace(summary=launched.with_note(measured.summary))
        self.bench.runs.append(case, measured)
        return measured

    def _execute(self, case: Case, number: int, *, scaling: bool) -> Run:
        shared = self.bench.hosts.shared_folder(case)
        plan = self.plan(case, f"run{number}", scaling=scaling)
        if shared is not None:
            shared.clear(number)

        gpus = GpuWatch(case, plan)

        def tick(folder: Path) -> None:
            self.bench.watcher.tick(case, folder)
            gpus.tick(folder)
            if shared is not None:
                shared.check_others()

        return execute(plan, lease=self.lease, on_tick=tick)

    def plan(
        self,
        case: Case,
        folder: str,
        *,
        scaling: bool = False,
        turns: bool = False,
        profile: ProfiledSteps | None = None,
    ) -> LaunchPlan:
        """Return the plan of a launch whose ``folder`` of the case is empty; raise ``CaseError``.

        It samples scaling, takes turns with the other arm's launch, or profiles so many steps.
        """
        check_unit(case)
        workdir = self.bench.folder / case.id / folder
        shutil.rmtree(workdir, ignore_errors=True)  # of an attempt that failed
        target = replace(self.target(case), scaling=scaling, turns=turns, profile=profile)
        self.check_nodes(case)
        if self.bench.hosts.copies_package:
            copy_package(self.bench.hosts.package_folder)
        return make_plan(case, target, workdir)

    def measurement(
        self, case: Case, runs: Sequence[MeasuredRun], parents: Sequence[MeasuredRun]
    ) -> Measurement:
        """Return what ``runs`` measured; the runs of its parent give the speedup."""
        counting = _counting(runs)
        problems = problems_of(runs, parents)
        parent = case.parent()
        reference = parent.layout if parents and parent and parent.world_size > 1 else None
        of_parent = f"the reference {reference}" if reference else "the one-device parent"
        disturbed = [
            f"{whose}{_disturbed(several)[-1].disturbed}"
            for whose, several in (("", runs), (f"{of_parent}: ", parents))
            # A budget may leave no time for one that is not
            if self.stays_disturbed(case, several) or (several and not _undisturbed(several))
        ]
        if disturbed:
            message = "; ".join(disturbed)
            problems["disturbed"] = Problem(code="disturbed", message=message)
        facts = runs[0].facts
        return Measurement(
            case_id=case.id,
            unit=facts.get("unit", case.unit),
            conditions=self.bench.hosts.conditions(case, facts, self.target(case)),
            runs=tuple(counting),
            disturbed_runs=tuple(run for run in _disturbed(runs) if run not in counting),
            parent_throughputs=tuple(run.throughput for run in _counting(parents)),
            reference=reference,
            problems=tuple(problems.values()),
            inject=self.bench.policy.injected(case),
        )


def _measured(case: Case, run: Run, options: OptionNames) -> MeasuredRun:
    if not case.command:
        return summarise(case, run)
    # It reads logs, with NumPy, whose import takes a tenth of a second.
    from pytest_dlperf.flow.user_program import summarise_program

    return summarise_program(case, run, options)


def _undisturbed(runs: Sequence[MeasuredRun]) -> int:
    return len(runs) - len(_disturbed(runs))


def problems_of(runs: Sequence[MeasuredRun], parents: Sequence[MeasuredRun]) -> dict[str, Problem]:
    """Return the problems of a measurement by code: those of its runs, and of launches again.

    Of runs that do not count, as others disturbed them and they were repeated, none that makes a
    measurement unsteady; drift where more than half of the counting runs have it.
    """
    counting = _counting(runs)
    run_problems = [
        problem
        for run in runs
        for problem in run.summary.problems
        if problem.code not in UNSTEADY or run.summary in counting
    ]
    run_problems += [p for run in parents for p in run.summary.problems if p.code == RETRIED]
    problems = merged(run_problems)
    drifting = sum(any(p.code == "drift" for p in run.problems) for run in counting)
    if drifting * 2 <= len(counting):
        problems.pop("drift", None)
        problems.pop(MACHINE_DRIFTED, None)
    return problems


def _counting(runs: Sequence[MeasuredRun]) -> list[RunSummary]:
    """Return the undisturbed runs; all if none is undisturbed, to have a number to show."""
    summaries = [run.summary for run in runs]
    return [one for one in summaries if not one.disturbed] or summaries


def _disturbed(runs: Sequence[MeasuredRun]) -> list[RunSummary]:
    return [run.summary for run in runs if run.summary.disturbed]


def merged(problems: Iterable[Problem]) -> dict[str, Problem]:
    """Return problems of several runs by code; notes on repeated launches are joined."""
    found: dict[str, Problem] = {}
    for problem in problems:
        before = found.get(problem.code)
        if before is not None and problem.code == RETRIED:
            problem = replace(problem, message=f"{before.message}; {problem.message}")
        found[problem.code] = problem
    return found


def launch_again(
    case: Case,
    launch: Callable[[], Run],
    *,
    is_allowed: Callable[[], bool],
    report: Callable[[str], None],
) -> Launched:
    """Launch a run, up to three times while launches fail by a fault of the infrastructure.

    ``is_allowed`` returns whether another launch may start; ``report`` gets a message before it.
    The folder of a failed launch is renamed, such as to ``run1.failed1``.
    """
    failed: list[str] = []
    while True:
        run = launch()
        records = read_records(Path(run.plan.records))
        why = launch_failure(run, records, _end_of(run.log), is_program=bool(case.command))
        # Said at once, before there is an outcome
        why = masked(why, secrets_of(os.environ, case.command_line()))
        if not why:
            return Launched(run=run, failed=tuple(failed), is_given_up=False)
        if len(failed) + 1 == _LAUNCHES or not is_allowed():
            failed.append(f"{why} ({run.log})")
            return Launched(run=run, failed=tuple(failed), is_given_up=True)
        folder = Path(run.plan.workdir)
        log = _set_aside(folder) / Path(run.log).name
        failed.append(f"{why} ({log})")
        report(f"{folder.name} is launched again ({len(failed) + 1} of {_LAUNCHES}): {why}")
        time.sleep(len(failed) * _PAUSE_S)


@dataclass(frozen=True, kw_only=True, slots=True)
class Launched:
    """A run, and the launches before it that failed by a fault of the infrastructure."""

    run: Run
    #: Why each of them failed, with its log.
    failed: tuple[str, ...]
    #: Whether the run itself failed in the same way, and no further launch was allowed.
    is_given_up: bool

    def with_note(self, summary: RunSummary) -> RunSummary:
        """Return ``summary`` with a note on the launches that failed before."""
        if not self.failed:
            return summary
        name = Path(self.run.plan.workdir).name
        note = Problem(code=RETRIED, message=f"{name} was launched again: {self._list}")
        return replace(summary, problems=(*summary.problems, note))

    def error(self, error: CaseError) -> CaseError:
        """Return the run's error with a note on the launches that failed before."""
        if not self.failed or (self.is_given_up and len(self.failed) == 1):
            return error
        count = len(self.failed)
        words = (
            f"launched {count} times, and no rank came to its first step: {self._list}"
            if self.is_given_up
            else f"it was launched again before: {self._list}"
        )
        cause = error.sentence.rstrip(".")
        return CaseError(f"{cause}; {words}.", subject=error.subject, remarks=error.remarks)

    @property
    def _list(self) -> str:
        return "; ".join(self.failed)


def _set_aside(folder: Path) -> Path:
    """Rename the folder of a failed launch; return its new path."""
    number = 1
    while (kept := folder.with_name(f"{folder.name}.failed{number}")).exists():
        number += 1
    return folder.rename(kept)


def _end_of(log: str) -> str:
    try:
        with Path(log).open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _LOG_BYTES))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""  # there is no log: the run's own error says why
