"""Runs a case as often as asked, fresh launch by fresh launch; disturbed runs are repeated."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.run import Problem
from pytest_dlperf.launch.package_copy import copy_package
from pytest_dlperf.launch.plan import make_plan
from pytest_dlperf.launch.process import execute
from pytest_dlperf.measure.gpu_watch import GpuWatch
from pytest_dlperf.measure.nodes import await_other_nodes, check_share
from pytest_dlperf.measure.summary import summarise
from pytest_dlperf.own_program import check_unit, summarise_program

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_dlperf.bench import Bench
    from pytest_dlperf.core.case import Case
    from pytest_dlperf.core.place import Share
    from pytest_dlperf.core.run import Run, RunSummary

#: A run, and what its ranks reported of themselves.
RunWithFacts = tuple["RunSummary", dict[str, Any]]
_FEWEST_REPEATS: Final = 2


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Launches cases while it holds the host."""

    bench: Bench
    lease: int | None
    #: Folder of the test: workloads beside it are found.
    workload_folder: str

    def runs(self, case: Case, wanted: int) -> list[RunWithFacts]:
        """Return the runs of ``case`` in this session, of which ``wanted`` are undisturbed.

        Those that exist already count. Fewer are undisturbed if the machine stays disturbed:
        then at most ``max_runs - runs`` (at least 2) are repeated. Raises ``CaseError``.
        Several nodes launch the protocol's runs, whatever is wanted: the others cannot know.
        """
        with self.bench.runs.exclusive(case):
            found = self.bench.runs.load(case)
            while self._needs_more(case, found, wanted):
                self.bench.watcher.run_starts(case, len(found) + 1, wanted)
                found.append(self.launch(case, len(found) + 1))
                self.bench.watcher.run_ended(case, found[-1][0])
            return found

    def _needs_more(self, case: Case, found: Sequence[RunWithFacts], wanted: int) -> bool:
        if self.bench.share(case) is not None:
            return len(found) < case.protocol.runs
        return _undisturbed(found) < wanted and not stays_disturbed(case, found)

    def run_share(self, case: Case, share: Share) -> None:
        """Run the share of a node that does not judge; raise ``CaseError`` if it failed."""
        for number in range(1, case.protocol.runs + 1):
            self.bench.watcher.run_starts(case, number, case.protocol.runs)
            check_share(case, self._execute(case, number), share.node_rank)

    def launch(self, case: Case, number: int) -> RunWithFacts:
        """Return run ``number`` of ``case``, launched now; raise ``CaseError`` if it failed."""
        executed = self._execute(case, number)
        if self.bench.share(case) is not None:
            await_other_nodes(case, executed)
        read = summarise_program if case.command else summarise
        run, facts = read(case, executed)
        self.bench.runs.append(case, run, facts)
        return run, facts

    def _execute(self, case: Case, number: int) -> Run:
        check_unit(case)
        workdir = self.bench.folder / case.id / f"run{number}"
        shutil.rmtree(workdir, ignore_errors=True)  # of an attempt that failed
        plan = make_plan(case, self.bench.target(case, self.workload_folder), workdir)
        shared = self.bench.shared_folder(case)
        if self.bench.copies_package:
            copy_package(self.bench.package_folder)
        if shared is not None:
            shared.clear(number)

        gpus = GpuWatch(case, plan)

        def tick(folder: Path) -> None:
            self.bench.watcher.tick(case, folder)
            gpus.tick(folder)
            if shared is not None:
                shared.check_others()

        return execute(plan, lease=self.lease, on_tick=tick)

    def measurement(
        self, case: Case, runs: Sequence[RunWithFacts], parents: Sequence[RunWithFacts]
    ) -> Measurement:
        """Return what ``runs`` measured; the runs of the one-device parent give the speedup."""
        problems = {problem.code: problem for run, _ in runs for problem in run.problems}
        counting = _counting(runs)
        drifting = sum(any(p.code == "drift" for p in run.problems) for run in counting)
        if drifting * 2 <= len(counting):
            problems.pop("drift", None)
        disturbed = [
            f"{whose}{_last_disturbed(several).disturbed}"
            for whose, several in (("", runs), ("the one-device parent: ", parents))
            if stays_disturbed(case, several)
        ]
        if disturbed:
            message = "; ".join(disturbed)
            problems["disturbed"] = Problem(code="disturbed", message=message)
        return Measurement(
            case_id=case.id,
            unit=runs[0][1].get("unit", case.unit),
            conditions=self.bench.conditions(
                case, runs[0][1], self.bench.target(case, self.workload_folder)
            ),
            runs=tuple(counting),
            disturbed_runs=tuple(run for run, _ in runs if run.disturbed and run not in counting),
            parent_throughputs=tuple(run.throughput for run in _counting(parents)),
            problems=tuple(problems.values()),
            inject=self.bench.injected(case),
        )


def stays_disturbed(case: Case, runs: Sequence[RunWithFacts]) -> bool:
    """Return whether so many runs were disturbed that no more are repeated."""
    repeats = max(_FEWEST_REPEATS, case.protocol.max_runs - case.protocol.runs)
    return len(runs) - _undisturbed(runs) > repeats


def _undisturbed(runs: Sequence[RunWithFacts]) -> int:
    return sum(not run.disturbed for run, _ in runs)


def _counting(runs: Sequence[RunWithFacts]) -> list[RunSummary]:
    """Return the undisturbed runs; all of them if none is, so that there is a number to show."""
    return [run for run, _ in runs if not run.disturbed] or [run for run, _ in runs]


def _last_disturbed(runs: Sequence[RunWithFacts]) -> RunSummary:
    return next(run for run, _ in reversed(runs) if run.disturbed)
