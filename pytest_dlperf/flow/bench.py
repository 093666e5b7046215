"""The parts of a session that all its cases use: hosts, stored numbers, policy, folders."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_dlperf.cases.possible import check_data, check_possible, check_traceable
from pytest_dlperf.cases.selection import ASK_FOR_LESS, fits
from pytest_dlperf.core.arm import Arm, HereArm, ReadyArm, Reported
from pytest_dlperf.core.baseline import Baseline, Session, level_of
from pytest_dlperf.core.case import NO_FRAMEWORK, Case
from pytest_dlperf.core.errors import CaseError, NotRunError
from pytest_dlperf.core.measurement import Environment
from pytest_dlperf.core.option_names import OF_PYTEST, OptionNames
from pytest_dlperf.core.packages import PACKAGES, PackageChange, package_changes
from pytest_dlperf.core.verdict import NEVER, Judgement, Rule, Verdict
from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.flow.budget import Budget
from pytest_dlperf.flow.hosts import Hosts, check_probed
from pytest_dlperf.flow.watcher import Watcher
from pytest_dlperf.judge.two_stages import rule_of_a_stage
from pytest_dlperf.judge.verdict import with_finding
from pytest_dlperf.launch.arms.make import Arms
from pytest_dlperf.launch.base import Target, brings_own_interpreter
from pytest_dlperf.launch.launchers import check_program
from pytest_dlperf.store.baseline.store import BaselineStore
from pytest_dlperf.store.history.session_runs import SessionRuns

if TYPE_CHECKING:
    from pytest_dlperf.flow.from_logs import LogFolder


#: Folders in that of the session, of the pairs of a second stage: with the code of the last stored
#: session, with that of the anchor, and with the packages of a stored session.
PAIRS: Final = "pairs"
ANCHOR: Final = "anchor"
PACKAGES_OF_BEFORE: Final = "packages"


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The folder of baselines, and which kind of them counts."""

    store: BaselineStore
    #: Whether cases are judged against published numbers, in place of measured baselines.
    published: bool = False

    def baseline(self, case: Case, machine_class: str) -> Baseline | None:
        """Return the baseline of ``case`` on a machine class; None if none is stored.

        Raises ``BaselineError`` for a file that cannot be used.
        """
        if not self.published:
            return self.store.find(machine_class, case.suite, case.id)
        found = self.store.published(case.id, case.suite, case.workload)
        return next((b for b in found if b.machine_class == machine_class), None)

    def with_folder(self, judgement: Judgement) -> Judgement:
        """Return ``judgement``; one without a baseline says in which folder there is none.

        Where pytest's rootdir is that of another package, so is the folder.
        """
        if judgement.verdict is not Verdict.NO_BASELINE or self.published:
            return judgement
        return with_finding(judgement, "looked-in", folder=str(self.store.root))

    def profiles(self, case: Case, machine_class: str) -> list[ProfileRecord]:
        """Return the profiles beside the baseline of ``case``; none if none are stored.

        Raises ``BaselineError`` for a file that cannot be used.
        """
        return [] if self.published else self.store.profiles(machine_class, case.suite, case.id)

    def package_changes(
        self, baseline: Baseline | None, environment: Environment
    ) -> tuple[PackageChange, ...]:
        """Return the packages that differ from those of the baseline's last session.

        None where they are not known. Raises ``BaselineError`` for a file that cannot be used.
        """
        level = level_of(() if baseline is None else baseline.sessions)
        return self.packages_since(level[-1], environment) if level else ()

    def packages_since(
        self, session: Session, environment: Environment
    ) -> tuple[PackageChange, ...]:
        """Return the packages that differ from those of ``session``, as ``package_changes``."""
        before = session.software.get(PACKAGES)
        if before is None or before == environment.software.get(PACKAGES):
            return ()
        stored = self.store.packages(environment.machine_class, before)
        return package_changes(stored, environment.packages)

    def baseline_of_any_machine(self, case: Case) -> Baseline | None:
        """Return the only baseline of ``case``: logs do not say which machine wrote them.

        Raises ``CaseError`` where several machine classes have one.
        """
        kind = "published" if self.published else "measured"
        entries, _ = self.store.readable()
        baselines = [
            entry.baseline
            for entry in entries
            if entry.baseline.case_id == case.id and entry.baseline.source.kind == kind
        ]
        if len(baselines) > 1:
            classes = ", ".join(sorted(baseline.machine_class for baseline in baselines))
            raise CaseError(
                f"logs do not say which machine wrote them, and there are baselines of "
                f"{classes}; name one with DLPERF_MACHINE_CLASS",
                subject=case.id,
            )
        return baselines[0] if baselines else None

    def published_value(self, case: Case) -> dict[str, str | float]:
        """Return the published number of ``case`` with its source; empty if there is none."""
        for baseline in self.store.published(case.id, case.suite, case.workload):
            return {
                "throughput": statistics.median(baseline.throughputs),
                "unit": baseline.unit,
                "machine_class": baseline.machine_class,
                "document": baseline.source.document,
                "table": baseline.source.table,
            }
        return {}


def _raised(interrupt: KeyboardInterrupt) -> None:
    raise interrupt


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What a session measures and judges its cases with; the same for all of them."""

    hosts: Hosts
    stored: Stored
    policy: Policy
    runs: SessionRuns
    watcher: Watcher
    #: Folder of all sessions and of their caches.
    workdir: Path
    #: Logs that are judged in place of training; None for training.
    logs: LogFolder | None = None
    #: Whether the cost of a step is judged, in place of its speed.
    traces: bool = False
    #: Device that the time of a traced step is predicted for; None for none.
    cost_device: str | None = None
    #: The arms of an A/B; None if cases are judged against stored baselines.
    side_by_side: SideBySide | None = None
    #: What prepares the code of stored sessions; None where no pair is to decide.
    arms: Arms | None = None
    #: Takes an interrupt that came when the verdict was known, so that it is not lost; it is to
    #: be raised once the outcome is handed over.
    interrupted: Callable[[KeyboardInterrupt], None] = _raised

    def without_pairs(self) -> Bench:
        """Return the bench of a case that stored sessions alone decide."""
        rule = replace(self.policy.rule, without_pairs=True)
        return replace(self, policy=replace(self.policy, rule=rule))

    def in_pairs(self, against: Arm, folder: str) -> Bench:
        """Return the bench of a second stage, whose runs are kept apart in ``folder``."""
        assert self.arms is not None
        here = self.folder / folder
        return replace(
            self,
            hosts=replace(self.hosts, folder=here),
            policy=replace(self.policy, rule=rule_of_a_stage(self.policy.rule)),
            runs=SessionRuns(here),
            side_by_side=SideBySide(against=against, arms=self.arms),
        )

    def with_arm(self, arm: ReadyArm, folder: Path, *, inject: bool, reported: Reported) -> Bench:
        """Return the bench of one arm, whose runs are kept in ``folder``."""
        policy = self.policy if inject else replace(self.policy, inject=())
        hosts = self.hosts.with_arm(arm, folder, reported)
        return replace(self, hosts=hosts, policy=policy, runs=SessionRuns(folder))

    @property
    def folder(self) -> Path:
        """Return the folder of the session's run folders."""
        return self.hosts.folder

    def baseline(self, case: Case) -> Baseline | None:
        """Return the baseline that ``case`` is judged against; None if none is stored.

        Raises ``BaselineError`` for a file that cannot be used.
        """
        if self.logs is not None and self.hosts.pinned_machine_class is None:
            return self.stored.baseline_of_any_machine(case)
        return self.stored.baseline(case, self.hosts.machine_class(case))

    def target(self, case: Case, workload_folder: str) -> Target:
        """Return where the ranks of ``case`` run, with their data and injected slowdown."""
        target = self.hosts.target(case, workload_folder)
        data = None if case.command else self.policy.data
        return replace(target, inject=self.policy.injected(case), data=data)

    def check(self, case: Case) -> None:
        """Raise ``CaseError`` or ``NotRunError`` if ``case`` cannot run here."""
        if self.traces:
            check_traceable(case)
        elif misfit := fits(case.layout, self.hosts.machine, self.policy.options):
            raise CaseError(misfit, subject=case.id, remedy=ASK_FOR_LESS)
        hosts, place = self.hosts, self.hosts.place
        if case.command and self.policy.injected(case):
            raise CaseError(
                "--dlperf-inject cannot make the steps of a program (command=) longer",
                subject=case.id,
                remedy="leave it out, or name the workloads that it is for "
                "(--dlperf-inject=GLOB:SHARE)",
            )
        if self.policy.data and not case.command and not place.foreign:
            check_data(case, Path(self.policy.data))
        overlay = hosts.arm.overlay if hosts.arm else ""
        gpus = () if self.traces else hosts.devices.gpus
        capabilities = [gpu.compute_capability for gpu in gpus if gpu.compute_capability]
        try:
            if place.foreign:
                self._check_target(case)
            check_possible(
                case,
                compute_capability=min(capabilities, default=None),
                framework_known=place.foreign or bool(overlay) or brings_own_interpreter(case),
            )
            if not place.prefix and not overlay and not self.traces:
                check_program(case, place.python)
        except NotRunError as error:
            if case.framework in self.policy.frameworks_asked:
                raise CaseError(error.cause, subject=case.id, remedy=error.remedy) from error
            raise

    def _check_target(self, case: Case) -> None:
        """Raise if a probe of the target found that it lacks what ``case`` needs."""
        if self.policy.runs_nothing or case.framework == NO_FRAMEWORK:
            return
        answer = self.hosts.probes.facts(case.framework, timeout_s=case.protocol.timeout_s)
        if self.traces:
            answer = {**answer, "gpus": case.layout.devices_per_node}  # which it does not need
        check_probed(case, answer, self.hosts.place.words)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What the user asked of every case of the session."""

    rule: Rule
    #: Globs over case ids, each with the share of a step to add: see ``--dlperf-inject``.
    inject: tuple[tuple[str, float], ...] = ()
    #: How long the session may measure; None for no limit.
    budget: Budget | None = None
    #: How the user types options that a message advises.
    options: OptionNames = OF_PYTEST
    #: How pairs are measured: ``lock-step``, ``alternating``; empty for lock-step where it fits.
    pairs: str = ""
    #: What decides where stored sessions do not: ``pairs``, ``packages`` (pairs, with packages of
    #: before too), ``never`` (nothing else).
    confirm: str = NEVER
    #: When steps are profiled: ``regressed``, ``always``, ``never``; None if nothing was said.
    explain: str | None = None
    #: Folder of real data, as the ranks see it; None for synthetic data.
    data: str | None = None
    #: Frameworks asked for by name: their absence is an error.
    frameworks_asked: tuple[str, ...] = ()
    #: Whether nothing is started: a list, a dry run.
    runs_nothing: bool = False

    @property
    def budget_text(self) -> str:
        """Return the budget for people."""
        return self.budget.text if self.budget else "no limit"

    def injected(self, case: Case) -> float:
        """Return the share by which the steps of ``case`` are made longer on purpose."""
        return max((share for glob, share in self.inject if fnmatchcase(case.id, glob)), default=0)


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """The two arms of an A/B, and what prepares their trees and environments."""

    against: Arm
    arms: Arms
    now: Arm = field(default_factory=HereArm)
