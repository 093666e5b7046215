"""Measure an A/B: pairs of runs of a case, one of each arm, in lock-step where both fit.

Where they do not, their launches alternate, in random order.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.arm import ReadyArm, Reported
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import BudgetSpentError, CaseError, DlperfError
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.outcome import Against, Outcome
from pytest_dlperf.core.run import MeasuredRun, Problem
from pytest_dlperf.core.verdict import Comparison, Judgement, Verdict
from pytest_dlperf.core.wire_records import RunFacts
from pytest_dlperf.flow.ab_imports import TwoTrees
from pytest_dlperf.flow.explain import REGRESSED, explain, explained, is_wanted
from pytest_dlperf.flow.lock_step import (
    WINDOW_S,
    ArmFailedError,
    DoNotFitError,
    cannot_take_turns,
    check_readers,
    launch_in_turns,
    turns_by_time,
    with_longer_window,
)
from pytest_dlperf.flow.looks import Look, Measured, until_decided
from pytest_dlperf.flow.runner import Runner
from pytest_dlperf.flow.timed_turns import OtherTurnsError
from pytest_dlperf.judge.verdict import judge_pairs, plain_judgement, with_finding
from pytest_dlperf.launch.arms.alike import with_path_as_long

if TYPE_CHECKING:
    from pytest_dlperf.flow.bench import Bench, SideBySide

#: Names of the two sides of a pair.
NOW: Final = "now"
BEFORE: Final = "before"
#: How pairs are measured, where the user says it (``--dlperf-pairs``).
LOCK_STEP: Final = "lock-step"
ALTERNATING: Final = "alternating"
#: Code of the note that a disturbed pair counts.
_SHARED: Final = "shared-machine"
_SHARED_IN_TURNS: Final = "both runs of a pair in lock-step met it, so that the pair counts"
_SHARED_BY_CHANCE: Final = (
    "it stayed, and which run of a pair meets more of it is chance, so that pairs count"
)


def compare_arms(case: Case, bench: Bench, *, workload_folder: str) -> Measured:
    """Run pairs of ``case`` until they decide, or up to ``max_runs``; raise ``CaseError``.

    Both arms are prepared while the host is held: their builds would disturb other measurements.
    """
    sides = bench.side_by_side
    assert sides is not None
    with bench.hosts.lease(case, bench.watcher) as lease:
        arms = {NOW: sides.arms.ready(sides.now)}
        _bench_of(bench, arms[NOW], NOW, Reported()).check(case)
        arms[BEFORE] = sides.arms.ready(sides.against)
        trees = TwoTrees(
            now=arms[NOW],
            before=arms[BEFORE],
            rootdir=bench.hosts.rootdir,
            workdir=bench.workdir,
        )
        reported = trees.reported(bench.folder)
        if not bench.hosts.place.foreign:
            trees.compile_alike()
        alike = {
            NOW: with_path_as_long(arms[NOW], arms[BEFORE]),
            BEFORE: with_path_as_long(arms[BEFORE], arms[NOW]),
        }
        runners = {
            side: Runner(
                bench=_bench_of(bench, arm, side, reported),
                lease=lease,
                workload_folder=workload_folder,
            )
            for side, arm in alike.items()
        }
        with _naming_arm(case, arms[BEFORE]):
            runners[BEFORE].bench.check(case)
        measured = _Pairs(case, arms, runners, trees).compare()
        assert measured.against is not None
        is_due = is_wanted(bench.policy, measured.judgement, default=REGRESSED)
        if measured.against.unaffected or not is_due:
            return measured
        explanation = explain(case, runners, (BEFORE, NOW, NOW, BEFORE), measured)
        judgement = explained(measured.judgement, explanation)
        return replace(measured, judgement=judgement, explanation=explanation)


class _Pairs:
    """The pairs of one case, launched in random order."""

    def __init__(
        self,
        case: Case,
        arms: dict[str, ReadyArm],
        runners: dict[str, Runner],
        trees: TwoTrees,
    ) -> None:
        #: The case, and with the window of its pairs, which may become longer.
        self._declared = case
        self._case = case
        self._arms = arms
        self._runners = runners
        self._trees = trees
        self._runs: dict[str, list[MeasuredRun]] = {NOW: [], BEFORE: []}
        self._order: list[str] = []
        self._session = runners[NOW].bench.folder.name
        self._random = random.Random(f"{case.id} {self._session}")
        policy = runners[NOW].bench.policy
        self._lock_step = policy.options.typed(f"pairs={LOCK_STEP}")
        #: Why launches alternate; empty for lock-step.
        self._alternates = (
            f"as {policy.options.typed('pairs')} asks for it"
            if policy.pairs == ALTERNATING
            else cannot_take_turns(case)
        )
        if self._alternates and policy.pairs == LOCK_STEP:
            raise CaseError(f"{self._lock_step}: {self._alternates}", subject=case.id)
        #: Turns by time, of a program that does not mark its steps; None for turns by steps.
        self._by_time = turns_by_time(case) if case.log_format else None
        self._rule = policy.rule
        #: Whether so many pairs were disturbed that disturbed ones count.
        self._stays_disturbed = False

    def compare(self) -> Measured:
        """Launch pairs until they decide."""
        budget = self._runners[NOW].bench.policy.budget_text
        measured = until_decided(self._case, budget, self._look, in_pairs=True)
        is_slowed = measured.measurement is not None and measured.measurement.inject
        if not is_slowed and (words := self._trees.null(*self._first_facts())):
            judgement = with_finding(measured.judgement, "equal-arms", text=words)
            measured = replace(measured, judgement=judgement)
        return measured

    def _look(self, wanted: int, judgement: Judgement | None) -> Look:
        """Launch pairs until ``wanted`` of them count, and judge them."""
        if unaffected := self._measure(wanted, judgement):
            return Look(self._unaffected(unaffected), is_last=True)
        if not self._runs[BEFORE]:
            raise BudgetSpentError(self._case.id)
        now, before = self._measurement(NOW), self._measurement(BEFORE)
        judgement = judge_pairs(
            self._case,
            now,
            before,
            self._rule,
            varied=self._varied(),
            against=self._arms[BEFORE].words,
        )
        first, first_before = self._first_facts()
        return Look(
            Measured(
                measurement=now,
                judgement=judgement,
                case=self._case,
                facts=first,
                against=self._against(before),
                packages_before=first_before.get("settings", {}).get("packages", {}),
            ),
            is_cut_short=self._needs_more(wanted) and not self._has_time(),
        )

    def _measure(self, wanted: int, judgement: Judgement | None) -> str:
        """Launch pairs until ``wanted`` of them count; return why pairs are pointless, or nothing.

        A disturbed run disturbs its pair, where launches alternate: both are repeated, until it
        is clear that the machine stays so.
        """
        runs = self._runs[NOW]
        while self._needs_more(wanted) and self._has_time():
            scaling = self._runners[NOW].samples_scaling(self._case, runs, judgement)
            if unaffected := self._launch_pair(wanted, scaling=scaling):
                return unaffected
            if self._runners[NOW].stays_disturbed(self._case, runs):
                self._count_disturbed()
        if all(run.summary.disturbed for run in runs):
            self._count_disturbed()
        return ""

    def _count_disturbed(self) -> None:
        """Let disturbed pairs count, those so far as well.

        In random order they favour neither side: they vary more, and the verdict says so.
        """
        self._stays_disturbed = True
        for runs in self._runs.values():
            runs[:] = [_counted(run, _SHARED_BY_CHANCE) for run in runs]

    def _needs_more(self, wanted: int) -> bool:
        return self._runners[NOW].needs_more(self._case, self._runs[NOW], wanted)

    def _has_time(self) -> bool:
        return self._runners[NOW].has_time(*self._runs.values())

    def _launch_pair(self, wanted: int, *, scaling: bool) -> str:
        """Launch a pair; return why pairs are pointless, or nothing.

        The first one may be a trial, which another follows.
        """
        try:
            pair = self._pair(wanted, scaling=scaling)
        except DoNotFitError as error:
            if self._runners[NOW].bench.policy.pairs == LOCK_STEP:
                raise CaseError(f"{self._lock_step}: {error}", subject=self._case.id) from error
            self._alternates = str(error)
            self._runners[NOW].bench.watcher.notice(self._case, f"launches alternate: {error}")
            has_time = self._has_time()
            # Pairs of one kind are compared
            self._begin_again(self._declared)
            if not has_time:
                raise BudgetSpentError(self._case.id) from error
            pair = self._pair(wanted, scaling=scaling)
        number = len(self._runs[NOW]) + 1
        both_facts = pair[NOW].facts, pair[BEFORE].facts
        self._trees.check(self._case, *both_facts)
        # Steps that are made longer on purpose differ, whatever the code
        is_slowed = self._runners[NOW].bench.policy.injected(self._case)
        if (
            number == 1
            and not is_slowed
            and (unaffected := self._trees.unaffected(self._case, *both_facts))
        ):
            for side, launched in pair.items():
                self._runs[side].append(launched)
            self._report(pair, number, wanted)
            return unaffected
        if self._lengthen_window(pair, wanted):
            return self._launch_pair(wanted, scaling=scaling)
        if not self._alternates:
            pair = {side: _counted(run, _SHARED_IN_TURNS) for side, run in pair.items()}
        elif self._stays_disturbed:
            pair = {side: _counted(run, _SHARED_BY_CHANCE) for side, run in pair.items()}
        pair = _judged_as_pair(pair)
        self._report(pair, number, wanted)
        for side, launched in pair.items():
            self._runs[side].append(launched)
        self._keep_so_far()
        return ""

    def _keep_so_far(self) -> None:
        """Keep the pairs so far: a session may be ended, or killed, before they decide."""
        bench, now = self._runners[NOW].bench, self._measurement(NOW)
        bench.runs.keep_pairs(
            Outcome(
                case=self._case,
                judgement=plain_judgement(Verdict.NOT_RUN, "its pairs are not judged yet"),
                measurement=now,
                against=self._against(self._measurement(BEFORE)),
                environment=bench.hosts.environment(self._case, self._first_facts()[0]),
                folder=str(bench.folder / self._case.id),
            )
        )

    def _lengthen_window(self, pair: dict[str, MeasuredRun], wanted: int) -> bool:
        """Make the window longer where the first ``pair`` shows that it is short, and say so.

        Not where the budget has no time for as many longer pairs as are ``wanted``. Return whether
        it is longer now: the pair does not count then.
        """
        is_first = self._case is self._declared and not self._runs[NOW]
        if self._alternates or not is_first:
            return False
        longer = with_longer_window(self._case, pair)
        pair_s = sum(run.summary.elapsed_s for run in pair.values()) + len(pair) * WINDOW_S
        if longer is None or not self._runners[NOW].has_time(more_s=wanted * pair_s):
            return False
        window = longer.protocol.iterations - longer.protocol.warmup
        words = (
            f"its steps are short: pairs have windows of {window} iterations, this one was a trial"
        )
        self._runners[NOW].bench.watcher.notice(self._case, words)
        self._begin_again(longer)
        return True

    def _begin_again(self, case: Case) -> None:
        """Go on with ``case``, in its window, without the pairs so far."""
        self._case = case
        self._order.clear()
        for side, runs in self._runs.items():
            runs.clear()
            self._runners[side].bench.runs.forget(case)

    def _pair(self, wanted: int, *, scaling: bool) -> dict[str, MeasuredRun]:
        """Launch both arms: in lock-step, unless launches alternate."""
        number = len(self._runs[NOW]) + 1
        if self._alternates:
            return self._one_after_the_other(number, wanted, scaling=scaling)
        watcher = self._runners[NOW].bench.watcher
        watcher.run_starts(self._case, 2 * number - 1, 2 * wanted)  # of both versions at once
        try:
            pair = launch_in_turns(
                self._case,
                self._runners,
                number,
                session=self._session,
                scaling=scaling,
                by_time=self._by_time,
            )
        except OtherTurnsError as error:
            watcher.notice(self._case, str(error))
            if not self._has_time():
                raise BudgetSpentError(self._case.id) from error
            self._by_time = error.by_time
            if error.case is not self._case:
                self._begin_again(error.case)
            return self._pair(wanted, scaling=scaling)
        except ArmFailedError as error:
            with self._naming(error.side):
                raise
        for side, run in pair.items():
            summaries = [earlier.summary for earlier in (*self._runs[side], run)]
            check_readers(summaries, self._case.protocol.warmup)
        self._order.append("both")
        return pair

    def _report(self, pair: dict[str, MeasuredRun], number: int, wanted: int) -> None:
        """Report the runs of a pair in lock-step that counts; others are reported as they end."""
        if self._alternates:
            return
        watcher = self._runners[NOW].bench.watcher
        for position, side in enumerate((BEFORE, NOW)):
            watcher.run_starts(
                self._case, 2 * number - 1 + position, 2 * wanted, self._arms[side].name
            )
            watcher.run_ended(self._case, pair[side].summary)

    def _one_after_the_other(
        self, number: int, wanted: int, *, scaling: bool
    ) -> dict[str, MeasuredRun]:
        first = self._first()
        self._order.append(first)
        pair: dict[str, MeasuredRun] = {}
        for position, side in enumerate((first, BEFORE if first == NOW else NOW)):
            runner = self._runners[side]
            runner.bench.watcher.run_starts(
                self._case, 2 * number - 1 + position, 2 * wanted, self._arms[side].name
            )
            with self._naming(side):
                pair[side] = runner.launch(self._case, number, scaling=scaling)
            runner.bench.watcher.run_ended(self._case, pair[side].summary)
        return pair

    def _naming(self, side: str) -> AbstractContextManager[None]:
        if side == NOW:
            return contextlib.nullcontext()
        return _naming_arm(self._case, self._arms[BEFORE])

    def _first(self) -> str:
        """Return which arm runs first: drawn at random, and in every second pair the other one.

        So the effect of a run on the next one is the same for both arms.
        """
        if len(self._order) % 2:
            return BEFORE if self._order[-1] == NOW else NOW
        return self._random.choice((NOW, BEFORE))

    def _first_facts(self) -> tuple[RunFacts, RunFacts]:
        """Return what the ranks of the first pair reported."""
        return self._runs[NOW][0].facts, self._runs[BEFORE][0].facts

    def _measurement(self, side: str) -> Measurement:
        measured = self._runners[side].measurement(self._case, self._runs[side], [])
        if side == NOW and self._alternates:
            words = f"launches alternate: {self._alternates}"
            problem = Problem(code="alternating", message=words)
            measured = replace(measured, problems=(*measured.problems, problem))
        if side == NOW and self._trees.is_unknown(*self._first_facts()):
            problem = Problem(
                code="imports-unknown",
                message="a program that is read by its log does not report its imports, so "
                "nothing shows that the arms ran different code; mark its steps",
            )
            measured = replace(measured, problems=(*measured.problems, problem))
        return measured

    def _varied(self) -> tuple[str, ...]:
        threads = any("OMP_NUM_THREADS" in arm.variables for arm in self._arms.values())
        return ("threads_per_rank",) if threads else ()

    def _unaffected(self, reason: str) -> Measured:
        measurement = self._measurement(NOW)
        throughput = Comparison(now=measurement.throughput, verdict=Verdict.NOT_RUN)
        return Measured(
            measurement=measurement,
            judgement=plain_judgement(
                Verdict.NOT_RUN, reason, code="equal-arms", throughput=throughput
            ),
            case=self._case,
            facts=self._runs[NOW][0].facts,
            against=replace(self._against(None), unaffected=True),
        )

    def _against(self, measurement: Measurement | None) -> Against:
        arm, now = self._arms[BEFORE], self._arms[NOW]
        software: Mapping[str, str] = {}
        if measurement is not None:
            bench = self._runners[BEFORE].bench
            software = bench.hosts.environment(self._case, self._runs[BEFORE][0].facts).software
        return Against(
            name=arm.name,
            kind=arm.kind,
            commit=arm.commit,
            now="" if now.kind == "here" else now.words,
            measurement=measurement,
            software=software,
            order=tuple(self._order),
        )


def _judged_as_pair(pair: Mapping[str, MeasuredRun]) -> dict[str, MeasuredRun]:
    """Return the runs of a pair, both of which count or neither does."""
    judged = {}
    for side, other in ((NOW, BEFORE), (BEFORE, NOW)):
        run, paired = pair[side].summary, pair[other].summary
        if paired.disturbed and not run.disturbed:
            run = replace(run, disturbed=f"the other run of its pair: {paired.disturbed}")
        judged[side] = pair[side]._replace(summary=run)
    return judged


def _counted(measured: MeasuredRun, why: str) -> MeasuredRun:
    """Return a run that counts though others disturbed it, with a note of that."""
    run = measured.summary
    if not run.disturbed:
        return measured
    note = Problem(code=_SHARED, message=f"{run.disturbed}: {why}")
    return measured._replace(summary=replace(run, disturbed="", problems=(*run.problems, note)))


def _bench_of(bench: Bench, arm: ReadyArm, side: str, reported: Reported) -> Bench:
    folder = bench.folder if side == NOW else bench.folder / BEFORE
    # --dlperf-inject imitates a regression, so it slows this side only.
    return bench.with_arm(arm, folder, inject=side == NOW, reported=reported)


@contextlib.contextmanager
def _naming_arm(case: Case, arm: ReadyArm) -> Iterator[None]:
    """Name ``arm`` in the message of an error that is raised inside."""
    try:
        yield
    except DlperfError as error:
        raise CaseError(
            error.words(below=case.id), subject=f"{case.id}, against {arm.words}"
        ) from error


def unmeasured(sides: SideBySide) -> Against:
    """Return the other arm as the user named it, before it is measured."""
    against, now = sides.against, sides.now
    return Against(
        name=against.name, kind=against.kind, now="" if now.kind == "here" else now.name
    )
