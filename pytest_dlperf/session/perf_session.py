"""One perf session: what all perf cases of a pytest process share, and how each is run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_dlperf.cases.selection import Machine, Selected
from pytest_dlperf.core.arm import Reported
from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import DlperfError, UsageError
from pytest_dlperf.core.outcome import Outcome, as_written
from pytest_dlperf.core.place import Host
from pytest_dlperf.core.secret_texts import masked, secrets_of
from pytest_dlperf.core.verdict import NEVER, Judgement, Verdict
from pytest_dlperf.core.writable import message_of, unforeseen
from pytest_dlperf.flow.bench import Bench, Policy, SideBySide, Stored
from pytest_dlperf.flow.budget import Budget
from pytest_dlperf.flow.holding import GpuUse
from pytest_dlperf.flow.hosts import Hosts, machine_of
from pytest_dlperf.flow.nodes import Nodes
from pytest_dlperf.flow.pipeline import refused_case, run_case
from pytest_dlperf.flow.same_code import reported_here
from pytest_dlperf.flow.scheduled import Jobs
from pytest_dlperf.flow.unfinished import unfinished
from pytest_dlperf.judge.stats.family import family_size
from pytest_dlperf.judge.verdict import said, with_finding
from pytest_dlperf.launch.arms.checkout import Checkout, checkout_of
from pytest_dlperf.launch.arms.git import Preparation
from pytest_dlperf.launch.arms.make import Arms
from pytest_dlperf.launch.process.execute import execute
from pytest_dlperf.measure.devices import Devices, detect
from pytest_dlperf.session import usage
from pytest_dlperf.session.ending import Ending
from pytest_dlperf.session.exits import usage_error, warn
from pytest_dlperf.session.folder import digest_of_inherited, folder_of
from pytest_dlperf.session.hosts import declared_hosts, devices_of, make_nodes
from pytest_dlperf.session.resumed import Now, Resumed, is_judged, judged_now, now_of
from pytest_dlperf.session.rounds import Rounds
from pytest_dlperf.session.settings import Settings
from pytest_dlperf.session.stored_outcome import note, store_baseline
from pytest_dlperf.session.terminal.not_reached import keep_planned
from pytest_dlperf.session.terminal.progress import Live, Quiet
from pytest_dlperf.store.baseline.store import BaselineStore
from pytest_dlperf.store.history.session_runs import SessionRuns

if TYPE_CHECKING:
    from pytest_dlperf.flow.from_logs import LogFolder
    from pytest_dlperf.session.terminal.not_reached import Planned


class PerfSession:
    """What all perf cases of one pytest process share; made when the first is collected."""

    def __init__(self, config: pytest.Config) -> None:
        try:
            self.settings = Settings.from_config(config)
            usage.check_together(self.settings, processes=_processes(config))
            path = self.settings.resume
            self.resumed = None if path is None else Resumed(path)
        except UsageError as error:
            raise usage_error(error) from error
        self._config = config
        #: Sentences of what was left out at collection, for the summary.
        self.left_out: dict[str, str] = {}
        self.header_shown = False
        #: The cases that this session runs, once it has collected.
        self.selected: list[Case] = []
        self.rounds = Rounds()
        #: The tests of those cases, and those that an xdist worker has still to announce.
        self.planned: Sequence[Planned] = ()
        self.to_announce: Sequence[Planned] = ()
        self.ending = Ending()
        #: Name of the folder of pytest-xdist's workers, in the process that started them.
        self.folder_of_workers = ""

    def check_usage(self, config: pytest.Config) -> None:
        """Raise ``pytest.UsageError`` for settings that cannot do what they are for."""
        try:
            usage.check_at_start(self.settings, processes=_processes(config))
        except UsageError as error:
            raise usage_error(error) from error

    def check_resumed(self) -> None:
        """Raise ``pytest.UsageError`` if the file to go on from is of other cases."""
        # An exception would end an xdist worker without a word
        if self.resumed is None or hasattr(self._config, "workerinput"):
            return
        try:
            self.resumed.check(self.selected)
        except UsageError as error:
            raise usage_error(error) from error

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

        return make_jobs(self._config, self.settings, self._folder, self.watcher, self.ending)

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
        return make_nodes(self.settings, self.hosts, self._folder) if self.hosts else None

    @cached_property
    def logs(self) -> LogFolder | None:
        """The logs to judge in place of training."""
        folder = self.settings.from_logs
        if folder is None:
            return None
        from pytest_dlperf.flow.from_logs import LogFolder  # needs NumPy

        return LogFolder(folder)

    def keep_planned(self) -> None:
        """Let the process that started this worker know what it is to run."""
        keep_planned(self.planned, self._folder)

    @property
    def machine(self) -> Machine:
        """The devices that cases can be run on; a scheduler may know of none yet."""
        machine = machine_of(self.devices, self.settings.place.node_part, self.hosts)
        if self.jobs is None:
            return machine
        return replace(machine, nodes=None, is_known=self.jobs.knows_target)

    @cached_property
    def bench(self) -> Bench:
        """What the session gives to every case."""
        settings = self.settings
        _ = self.checkout  # as it is before anything is measured
        folder = self._folder
        budget = None if settings.budget_s is None else Budget.starting_now(settings.budget_s)
        place = settings.place
        reported = Reported()
        if settings.second_stage != NEVER:
            reported = reported_here(settings.rootdir, folder)
        hosts = Hosts(
            devices=self.devices,
            place=place,
            rootdir=settings.rootdir,
            import_folders=settings.import_folders,
            folder=folder,
            shared=settings.workdir / (place.node_part.name if place.node_part else ""),
            nodes=self.nodes,
            pinned_machine_class=settings.machine_class,
            share_host=settings.share_host,
            reported=reported,
            gpu_use=GpuUse(
                choice=settings.busy_gpus,
                names=tuple(gpu.name for gpu in self.devices.gpus),
                prefix=place.prefix,
                budget=budget,
            ),
        )
        policy = Policy(
            rule=settings.rule,
            inject=settings.inject,
            budget=budget,
            pairs=settings.pairs,
            confirm=settings.second_stage,
            explain=settings.explain,
            data=settings.data,
            frameworks_asked=settings.frameworks or (),
            runs_nothing=settings.runs_nothing,
        )
        against = settings.against
        arms = self._arms()
        return Bench(
            hosts=hosts,
            stored=Stored(store=self.store, published=settings.published),
            policy=policy,
            # The process of xdist's controller reads those of its workers
            runs=SessionRuns(
                folder, inherited="" if self.folder_of_workers else digest_of_inherited()
            ),
            watcher=self.watcher,
            workdir=settings.workdir,
            logs=self.logs,
            interrupted=self.ending.later,
            side_by_side=None if against is None else SideBySide(against=against, arms=arms),
            arms=arms,
        )

    def _arms(self) -> Arms:
        settings = self.settings
        return Arms(
            folder=settings.workdir / "arms",
            rootdir=settings.rootdir,
            python=settings.place.python,
            preparation=Preparation(setup=settings.arm_setup, links=tuple(settings.arm_links)),
            execute=execute,
        )

    @cached_property
    def watcher(self) -> Quiet:
        """What shows how cases go on."""
        config = self._config
        has_terminal = config.pluginmanager.has_plugin("terminalreporter")
        is_quiet = config.get_verbosity() < 0 or hasattr(config, "workerinput")
        return Live(config) if has_terminal and not is_quiet else Quiet(config)

    @cached_property
    def _folder(self) -> Path:
        """The session's folder, the same in all its xdist workers; making it drops the oldest."""
        folder, self._folder_lock = folder_of(self._config, self.settings, self.folder_of_workers)
        return folder

    def run(self, selected: Selected, item: pytest.Item) -> Outcome:
        """Run a case as the body of ``item``; return its outcome, failed or not.

        A further attempt of the same test has the verdict of the one before; after an error the
        case is measured again.
        """
        case, runs = selected.case, self.bench.runs
        earlier = self.judged(case)
        if earlier is not None:
            return earlier
        if runs.outcome(case) is not None and runs.failure(case):
            runs.forget(case)
        outcome = self._attempt(selected, item)
        try:
            runs.keep(outcome)
        except OSError as error:
            # A disk that is full must not lose what was measured and judged
            warn(f"{case.id}: its outcome is not kept for a rerun: {error}")
        return outcome

    def judged(self, case: Case) -> Outcome | None:
        """Return the verdict that this session has on ``case`` already; None without one."""
        if "bench" not in vars(self) or self.settings.runs_nothing:
            return None
        outcome = self.bench.runs.outcome(case)
        return outcome if outcome is not None and is_judged(outcome) else None

    def _attempt(self, selected: Selected, item: pytest.Item) -> Outcome:
        case = selected.case
        so_far = Outcome(
            case=case,
            judgement=said(Verdict.NOT_RUN, "it was not measured"),
            node_id=item.nodeid,
            time=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        try:
            taken = self.taken(case, item.nodeid)
            if taken is not None:
                return self.written(taken)
            differs = self._differs(case) or self._go_on(case)
            so_far = self.written(self._measured(selected, item))
            outcome = self.written(self._judged(so_far))
        except (pytest.exit.Exception, pytest.UsageError):  # of the session, and no case's
            raise
        except Exception as error:  # noqa: BLE001  # any: it ends this case, and no other one
            words = message_of(error) if isinstance(error, DlperfError) else unforeseen(error)
            reason = masked(f"{case.id}: {words}", self._secrets(case))
            return replace(so_far, judgement=said(Verdict.ERROR, reason), failed=True)
        if not differs:
            return outcome
        judgement = with_finding(outcome.judgement, "measured-again", text=differs)
        return replace(outcome, judgement=judgement)

    def written(self, outcome: Outcome) -> Outcome:
        """Return ``outcome`` as every report and file of the session holds it.

        What ranks, commands and settings say comes in here, so that what goes out has no secret.
        """
        return as_written(outcome, self._secrets(outcome.case))

    def _secrets(self, case: Case) -> list[str]:
        return secrets_of(os.environ, [*case.command_line, *self.settings.place.prefix])

    def _measured(self, selected: Selected, item: pytest.Item) -> Outcome:
        case, bench = selected.case, self._bench_of(selected.case)
        if self.jobs is not None and selected.error:
            outcome = self.jobs.refused(case, selected.error)
        elif self.jobs is not None:
            outcome = self.jobs.outcome(case)
        else:
            self.rounds.forget_changed(case, bench, item)
            refused = selected.error or bench.runs.failure(case)
            with self.watcher.watched(case):
                outcome = (
                    refused_case(case, bench, refused)
                    if refused
                    else run_case(case, bench, workload_folder=str(item.path.parent))
                )
        return self.checkout.on(replace(outcome, node_id=item.nodeid))

    def _judged(self, outcome: Outcome) -> Outcome:
        """Return a measured ``outcome`` as the session stores it, or fails its test."""
        case, bench = outcome.case, self._bench_of(outcome.case)
        if outcome.share_done:
            return outcome
        if self.logs is None:
            parent = case.parent()
            of_parent = [run.summary for run in bench.runs.load(parent)] if parent else []
            note(self.settings.workdir, outcome, of_parent)
        if self.settings.update:
            return self._update(outcome, bench)
        return replace(outcome, failed=self._fails(outcome))

    def unfinished(self, case: Case, folder: str, why: str) -> Outcome | None:
        """Return the outcome of runs without a verdict, as the session was ended for ``why``.

        ``folder`` is that of the test. None where there is no run of ``case``. Raises what
        ``flow.unfinished`` does.
        """
        has_runs = "bench" in vars(self) or self.folder_of_workers
        if self.jobs is not None or not has_runs:
            return None
        runs = self.bench.runs
        if not runs.load(case) and not runs.failure(case):
            return None
        return unfinished(case, self._bench_of(case), why, workload_folder=folder)

    def _go_on(self, case: Case) -> str:
        """Go on from the runs of an ended session; return why they are not used."""
        if self.resumed is None:
            return ""
        return self.resumed.go_on(case, self.bench.runs, lambda: self._now(case))

    def taken(self, case: Case, node_id: str, *, stores: bool = True) -> Outcome | None:
        """Return the outcome of ``case`` that an interrupted session has; None to measure it.

        It is judged by today's rule and baseline, and stored where this session ``stores`` and
        that one had not.
        """
        found = None if self.resumed is None else self.resumed.outcome(case)
        if self.resumed is None or found is None or self._differs(case):
            return None
        bench = self._bench_of(case)
        outcome = self.resumed.taken(found, node_id)
        if outcome.update:
            return outcome
        if is_judged(outcome):
            outcome = judged_now(outcome, bench)
        if self.settings.update and stores:
            return self._update(outcome, bench)
        return replace(outcome, failed=self._fails(outcome))

    def _differs(self, case: Case) -> str:
        """Return why the final outcome of ``case`` is not taken; empty if it may be."""
        if self.resumed is None:
            return ""
        return self.resumed.differs(case, lambda: self._now(case))

    def _now(self, case: Case) -> Now:
        return now_of(case, self.bench, self.checkout)

    def _bench_of(self, case: Case) -> Bench:
        """Return what the session gives to ``case``: alpha is split over the selected cases."""
        if self.settings.family_given:
            return self.bench
        policy = self.bench.policy
        rule = replace(policy.rule, family=self._family(case))
        return replace(self.bench, policy=replace(policy, rule=rule))

    def _family(self, case: Case) -> int:
        """Return how many cases alpha is split over: pairs need no stored ones."""
        if self.settings.against is not None:
            return max(1, len(self.selected))
        return family_size(self._stored(self.bench.hosts.machine_class(case)))

    def _stored(self, machine_class: str) -> list[Baseline]:
        """Return the baselines of a machine class that can be read; warn of those that cannot."""
        entries, broken = self.store.readable()
        for error in broken:
            warn(error)
        return [e.baseline for e in entries if e.baseline.machine_class == machine_class]

    def _fails(self, outcome: Outcome) -> bool:
        if outcome.against is not None and outcome.against.unaffected:
            return False
        return self.fails(outcome.judgement)

    def fails(self, judgement: Judgement) -> bool:
        """Whether a test fails with this judgement, by the session's policy."""
        if self.settings.observe:
            return judgement.verdict is Verdict.ERROR
        return self.settings.gate_fails(judgement)

    def _update(self, outcome: Outcome, bench: Bench) -> Outcome:
        """Return ``outcome`` as it is stored; one that did not run has nothing to store."""
        if outcome.judgement.verdict is Verdict.NOT_RUN:
            return replace(outcome, failed=self._fails(outcome))
        # Until the test has the outcome: what is stored is reported as well
        self.ending.hold()
        return store_baseline(outcome, bench, self.settings, fails=self._fails(outcome))


def _processes(config: pytest.Config) -> object:
    """Return how many processes of pytest-xdist there are to be; None without it."""
    return config.getoption("numprocesses", None)
