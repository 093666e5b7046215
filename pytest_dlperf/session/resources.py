"""What a session measures with: each is made when it is first asked for."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_dlperf.cases.selection import TRACED, Machine
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.outcome import Outcome, as_written
from pytest_dlperf.core.place import Host
from pytest_dlperf.core.secret_texts import secrets_of
from pytest_dlperf.flow.bench import Bench
from pytest_dlperf.flow.hosts import machine_of
from pytest_dlperf.flow.nodes import Nodes
from pytest_dlperf.flow.scheduled import Jobs
from pytest_dlperf.judge.stats.family import family_size
from pytest_dlperf.launch.arms.checkout import Checkout, checkout_of
from pytest_dlperf.measure.devices import Devices, detect
from pytest_dlperf.session.bench import make_bench
from pytest_dlperf.session.ending import Ending
from pytest_dlperf.session.exits import warn
from pytest_dlperf.session.folder import folder_of
from pytest_dlperf.session.hosts import declared_hosts, devices_of, make_nodes
from pytest_dlperf.session.process import Process
from pytest_dlperf.session.settings import Settings
from pytest_dlperf.session.terminal.progress import Live, Quiet
from pytest_dlperf.store.baseline.store import BaselineStore

if TYPE_CHECKING:
    from pytest_dlperf.flow.from_logs import LogFolder


class Resources:
    """Devices, nodes, jobs, stored numbers and folders of a session."""

    def __init__(
        self, config: pytest.Config, settings: Settings, process: Process, ending: Ending
    ) -> None:
        self.settings = settings
        self.process = process
        self.ending = ending
        #: How many cases the session runs, once it has collected.
        self.case_count = 0
        #: Name of the folder of pytest-xdist's workers, in the process that started them.
        self.folder_of_workers = ""
        self._config = config

    @cached_property
    def devices(self) -> Devices:
        """The devices of this host; of the target's nodes, where a scheduler chooses them."""
        if self.jobs is not None:
            return self.jobs.devices
        return detect() if self.settings.runs_nothing else devices_of(self.nodes)

    @cached_property
    def jobs(self) -> Jobs | None:
        """The jobs that run the cases; None where this session runs them."""
        if self.settings.scheduling is None:
            return None
        from pytest_dlperf.session.jobs import make_jobs

        return make_jobs(self._config, self.settings, self.folder, self.watcher, self.ending)

    @cached_property
    def store(self) -> BaselineStore:
        """The baselines."""
        return BaselineStore(self.settings.baselines)

    @cached_property
    def checkout(self) -> Checkout:
        """The commit of the rootdir, and whether files other than baselines were modified."""
        return checkout_of(self.settings.rootdir, outside=self.settings.baselines)

    @cached_property
    def hosts(self) -> tuple[Host, ...]:
        """The hosts of several nodes; none for this host alone."""
        return declared_hosts(self.settings)

    @cached_property
    def nodes(self) -> Nodes | None:
        """Those hosts, and how they are reached; None for this host alone."""
        return make_nodes(self.settings, self.hosts, self.folder) if self.hosts else None

    @cached_property
    def logs(self) -> LogFolder | None:
        """The logs to judge in place of training."""
        folder = self.settings.from_logs
        if folder is None:
            return None
        from pytest_dlperf.flow.from_logs import LogFolder  # needs NumPy

        return LogFolder(folder)

    @property
    def machine(self) -> Machine:
        """The devices that cases can be run on; a scheduler may know of none yet."""
        if self.settings.cost:
            return TRACED
        machine = machine_of(self.devices, self.settings.place.node_part, self.hosts)
        if self.jobs is None:
            return machine
        return replace(machine, nodes=None, is_known=self.jobs.knows_target)

    @cached_property
    def watcher(self) -> Quiet:
        """What shows how cases go on."""
        config, process = self._config, self.process
        has_terminal = config.pluginmanager.has_plugin("terminalreporter")
        is_quiet = config.get_verbosity() < 0 or process.is_worker
        return Live(config) if has_terminal and not is_quiet else Quiet(config, process.worker)

    @cached_property
    def folder(self) -> Path:
        """The session's folder, the same in all its xdist workers; making it drops the oldest."""
        folder, self._folder_lock = folder_of(self.settings, self.process, self.folder_of_workers)
        return folder

    @cached_property
    def bench(self) -> Bench:
        """What the session gives to every case."""
        return make_bench(self)

    @property
    def has_bench(self) -> bool:
        """Whether a case was measured, or could have been."""
        return "bench" in vars(self)

    def bench_of(self, case: Case) -> Bench:
        """Return what the session gives to ``case``: alpha is split over the selected cases."""
        if self.settings.family_given:
            return self.bench
        policy = self.bench.policy
        rule = replace(policy.rule, family=self._family(case))
        return replace(self.bench, policy=replace(policy, rule=rule))

    def _family(self, case: Case) -> int:
        """Return how many cases alpha is split over: pairs need no stored ones."""
        if self.settings.against is not None:
            return max(1, self.case_count)
        machine_class = self.bench.hosts.machine_class(case)
        entries, broken = self.store.readable()
        for error in broken:
            warn(error)
        baselines = [e.baseline for e in entries if e.baseline.machine_class == machine_class]
        return family_size(baselines)

    def written(self, outcome: Outcome) -> Outcome:
        """Return ``outcome`` as every report and file of the session holds it.

        What ranks, commands and settings say comes in here, so that what goes out has no secret.
        """
        return as_written(outcome, self.secrets(outcome.case))

    def secrets(self, case: Case) -> list[str]:
        """Return the values that no report may hold."""
        return secrets_of(os.environ, [*case.command_line(), *self.settings.place.prefix])
