"""What a session gives to every case: the machine, the baselines, the rule, the folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pytest_dlperf.cases.possible import check_data, check_possible
from pytest_dlperf.cases.selection import ASK_FOR_LESS, Machine, fits
from pytest_dlperf.core.arm import Arm, HereArm, ReadyArm, Reported
from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.environment import Environment
from pytest_dlperf.core.errors import CaseError, NotRunError
from pytest_dlperf.core.measurement import Conditions
from pytest_dlperf.core.place import Place, Share
from pytest_dlperf.core.verdict import Rule
from pytest_dlperf.flow.budget import Budget
from pytest_dlperf.flow.conditions import check_probed, conditions_of
from pytest_dlperf.flow.holding import GpuUse, hold_host, hold_hosts
from pytest_dlperf.flow.nodes import Nodes
from pytest_dlperf.flow.offline.from_logs import LogFolder
from pytest_dlperf.flow.stored_numbers import baseline_of_any_machine, published_value
from pytest_dlperf.flow.watcher import Watcher
from pytest_dlperf.launch.arms.apply import armed
from pytest_dlperf.launch.arms.make import Arms
from pytest_dlperf.launch.base import Target
from pytest_dlperf.launch.node_part import SharedFolder
from pytest_dlperf.launch.probe import Probes
from pytest_dlperf.launch.program import brings_own_interpreter
from pytest_dlperf.launch.programs import check_program
from pytest_dlperf.launch.remote.package_copy import copy_package
from pytest_dlperf.measure.devices import Devices
from pytest_dlperf.measure.environment import collect, with_target
from pytest_dlperf.store.baseline.store import BaselineStore
from pytest_dlperf.store.history.session_runs import SessionRuns


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The means of a session; the same for all its cases."""

    devices: Devices
    store: BaselineStore
    rule: Rule
    runs: SessionRuns
    watcher: Watcher
    #: Folder of the session's run folders.
    folder: Path
    rootdir: Path
    #: Folder of all sessions, and of what they keep.
    workdir: Path
    #: Where ranks start.
    place: Place
    #: Folder that the nodes of a training share, where each is started by hand.
    shared: Path
    #: The hosts of the session; None for this one alone.
    nodes: Nodes | None = None
    #: Whether nothing is started: a list, a dry run.
    runs_nothing: bool = False
    pinned_machine_class: str | None = None
    share_host: bool = False
    published: bool = False
    #: Logs that are judged in place of training; None for training.
    logs: LogFolder | None = None
    #: Folder of real data, as the ranks see it; None for synthetic data.
    data: str | None = None
    #: Frameworks asked for by name: their absence is an error.
    frameworks_asked: tuple[str, ...] = ()
    #: What is done where others use the GPUs of a case.
    gpu_use: GpuUse = field(default_factory=GpuUse)
    #: How long the session may measure; None without an end.
    budget: Budget | None = None
    #: Pairs of a glob over case ids and a share: see ``--dlperf-inject``.
    inject: tuple[tuple[str, float], ...] = ()
    #: The arms of an interleaved A/B, and what makes them; without one, stored baselines count.
    against: Arm | None = None
    now: Arm = field(default_factory=HereArm)
    arms: Arms | None = None
    #: The arm that this bench measures; None without an A/B.
    arm: ReadyArm | None = None
    #: What the ranks report of their imports.
    reported: Reported = field(default_factory=Reported)

    def of_arm(self, arm: ReadyArm, folder: Path, *, inject: bool, reported: Reported) -> Bench:
        """Return the bench of one arm, with a folder of its own."""
        place = self.place
        if arm.python:
            place = replace(place, python=arm.python, foreign=True)
        return replace(
            self,
            arm=arm,
            place=place,
            folder=folder,
            runs=SessionRuns(folder),
            inject=self.inject if inject else (),
            reported=reported,
        )

    @property
    def copies_package(self) -> bool:
        """Whether ranks get a copy of this package.

        In an A/B both arms do: what lies beside this package may be the very code that differs.
        """
        return self.place.foreign or self.arm is not None or self.nodes is not None

    @property
    def machine(self) -> Machine:
        """Return what there is to run on."""
        return Machine(
            gpus=self.devices.visible_gpus,
            gpu_problem=self.devices.gpu_problem,
            cores=self.devices.visible_cores,
            gpus_per_node=len(self.devices.gpus),
            node_rank=self.place.share.node_rank if self.place.share else None,
            hosts=self.nodes.hosts if self.nodes else (),
        )

    def machine_class(self, case: Case) -> str:
        """Return the class whose baselines count for ``case``."""
        return self.pinned_machine_class or self.devices.machine_class(case.layout.device)

    @property
    def budget_words(self) -> str:
        """Return how long the session may measure, in words."""
        return self.budget.words if self.budget else "no end"

    def rule_for(self, case: Case) -> Rule:
        """Return the rule with the noise that this machine class has shown at that world size.

        Raises ``BaselineError`` if what is stored of it cannot be read.
        """
        noise = self.store.noise(self.machine_class(case))
        return replace(self.rule, prior=noise.prior(case.world_size) if noise else None)

    def check(self, case: Case, misfit: str = "") -> None:
        """Raise ``CaseError`` or ``NotRunError`` if ``case`` cannot run here.

        ``misfit`` says why not, and what to do, where that is known already.
        """
        if not misfit and (found := fits(case.layout, self.machine)):
            misfit = f"{found}; {ASK_FOR_LESS}"
        if misfit:
            raise CaseError(f"{case.id}: {misfit}")
        if self.data and not case.command and not self.place.foreign:
            check_data(case, Path(self.data))
        overlay = self.arm.overlay if self.arm else ""
        capabilities = [g.compute_capability for g in self.devices.gpus if g.compute_capability]
        try:
            if self.place.foreign:
                self._check_target(case)
            check_possible(
                case,
                compute_capability=min(capabilities, default=None),
                framework_known=self.place.foreign
                or bool(overlay)
                or brings_own_interpreter(case),
            )
            if not self.place.prefix and not overlay:
                check_program(case, self.place.python)
        except NotRunError as error:
            if case.framework in self.frameworks_asked:
                raise CaseError(f"{case.id}: {error}") from error
            raise

    def _check_target(self, case: Case) -> None:
        """Raise if the target, which a probe tells of, lacks what ``case`` needs."""
        if self.runs_nothing:
            return
        facts = self.probes.facts(case.framework, timeout_s=case.protocol.timeout_s)
        check_probed(case, facts, self.place.words)

    @property
    def probes(self) -> Probes:
        """Return what tells of the target."""
        return Probes(place=self.place, folder=self.folder, package_folder=self.package_folder)

    @property
    def package_folder(self) -> Path:
        """Return the folder of this package's copy, for another interpreter's path."""
        return self.folder / "package"

    def share(self, case: Case) -> Share | None:
        """Return this node's share of ``case``; None if the case runs on this host alone."""
        return self.place.share if case.layout.nodes > 1 else None

    @contextlib.contextmanager
    def together(self, case: Case) -> Iterator[None]:
        """Keep in touch with the other nodes of ``case``; nothing if it has one."""
        shared = self.shared_folder(case)
        with shared.together() if shared is not None else contextlib.nullcontext():
            yield

    def shared_folder(self, case: Case) -> SharedFolder | None:
        """Return what the nodes of ``case`` have in common; None if there is one node."""
        share = self.share(case)
        if share is None:
            return None
        return SharedFolder(folder=self.shared / case.id, node_rank=share.node_rank)

    def baseline(self, case: Case) -> Baseline | None:
        """Return what ``case`` is judged against; None if nothing is stored.

        The measured baseline; with ``--dlperf-published`` the published number of the same
        machine class. Raises ``BaselineError`` for a file that cannot be used.
        """
        machine_class = self.machine_class(case)
        if self.logs is not None and self.pinned_machine_class is None:
            kind = "published" if self.published else "measured"
            return baseline_of_any_machine(self.store, case, kind)
        if not self.published:
            return self.store.find(machine_class, case.suite, case.id)
        found = self.store.published(case.id, case.suite, case.workload)
        return next((b for b in found if b.machine_class == machine_class), None)

    def published_value(self, case: Case) -> dict[str, str | float]:
        """Return the published number of ``case`` with its source; empty if there is none."""
        return published_value(self.store, case)

    def lease(self, case: Case) -> AbstractContextManager[int | None]:
        """Hold the hosts while ``case`` measures; nothing if they are shared."""
        if self.nodes is not None and self.nodes.hosts_of(case):
            copy_package(self.package_folder)
            return hold_hosts(case, self.nodes, self.watcher, shared=self.share_host)
        if self.share_host:
            return contextlib.nullcontext()
        return hold_host(case, self.watcher, self.gpu_use)

    def target(self, case: Case, workload_folder: str) -> Target:
        """Return where the ranks of ``case`` run."""
        if case.layout.device == "cpu":
            sharers = case.cpu_ranks_max
        else:
            sharers = max(1, len(self.devices.gpus))
        home = str(
            self.package_folder if self.copies_package else Path(__file__).resolve().parents[2]
        )
        path = dict.fromkeys([home, workload_folder, str(self.rootdir), os.getcwd()])
        target = Target(
            python=self.place.python,
            folder=workload_folder,
            python_path=tuple(folder for folder in path if folder),
            threads_per_rank=max(1, self.devices.visible_cores // sharers),
            inject=self.injected(case),
            data=None if case.command else self.data,
            prefix=self.place.prefix,
            share=self.share(case),
            shared_records=self.shared / case.id if self.share(case) else None,
            hosts=self.nodes.hosts_of(case) if self.nodes else (),
            ways=self.nodes.ways if self.nodes else None,
            rendezvous=self.nodes.rendezvous if self.nodes else "static",
            travelling=self.nodes.travelling if self.nodes else {},
            package_folder=self.package_folder,
        )
        if self.arm is None:
            return target
        return armed(target, self.arm, reported=self.reported)

    def environment(self, case: Case, facts: Mapping[str, Any]) -> Environment:
        """Return where ``case`` ran, by what its ranks reported, and a probe where one was."""
        environment = collect(
            self.devices, case.layout.device, facts, pinned=self.pinned_machine_class
        )
        if not self.place.foreign:
            return environment
        probed = self.probes.known(case.framework)
        return with_target(environment, probed, prefix=self.place.prefix_text)

    def injected(self, case: Case) -> float:
        """Return the share by which the steps of ``case`` are made longer on purpose."""
        return max((share for glob, share in self.inject if fnmatchcase(case.id, glob)), default=0)

    def conditions(self, case: Case, facts: Mapping[str, Any], target: Target) -> Conditions:
        """Return what must be equal before this measurement is compared with another."""
        return conditions_of(
            case,
            facts,
            target,
            hardware=self.devices.machine_class(case.layout.device),
            host_sharing=self.share_host,
        )
